-- What keeps a new effect from happening, schema version 3: the same reviews as before, found by an
-- expression that no other index has, so that no plan can take another one for it.

DROP INDEX nottwice.reviews_blocking;
CREATE INDEX reviews_blocking ON nottwice.reviews ((
  CASE WHEN status IN ('open', 'decided')
        AND (kind NOT IN ('question', 'approval') OR strpos(decision_json, '"abort"') > 0)
       THEN workflow_id END))
  WHERE CASE WHEN status IN ('open', 'decided')
        AND (kind NOT IN ('question', 'approval') OR strpos(decision_json, '"abort"') > 0)
       THEN workflow_id END IS NOT NULL;
