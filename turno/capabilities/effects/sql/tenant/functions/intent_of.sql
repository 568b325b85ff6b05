-- The id of an intent outside the database: no handler may read the token of another claim.
CREATE OR REPLACE FUNCTION intent_of(p_token uuid) RETURNS uuid LANGUAGE sql IMMUTABLE
RETURN substring(encode(sha256(convert_to(p_token::text, 'UTF8')), 'hex') FOR 32)::uuid;
