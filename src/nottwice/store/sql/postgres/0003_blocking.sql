-- Schema version 3: the index of reviews that block a new effect. It has the same reviews as before,
-- by an expression that no other index has, so that no plan can use another index.

DROP INDEX nottwice.reviews_blocking;
CREATE INDEX reviews_blocking ON nottwice.reviews ((
  CASE WHEN status IN ('open', 'decided')
        AND (kind NOT IN ('question', 'approval') OR strpos(decision_json, '"abort"') > 0)
       THEN workflow_id END))
  WHERE CASE WHEN status IN ('open', 'decided')
        AND (kind NOT IN ('question', 'approval') OR strpos(decision_json, '"abort"') > 0)
       THEN workflow_id END IS NOT NULL;
