-- What an intent is known by outside the database: its claim's token is for nobody else to see.
CREATE OR REPLACE FUNCTION intent_of(p_token uuid) RETURNS uuid LANGUAGE sql IMMUTABLE
RETURN substring(encode(sha256(convert_to(p_token::text, 'UTF8')), 'hex') FOR 32)::uuid;
