DROP FUNCTION IF EXISTS callback_put(uuid, text[], text);
DROP FUNCTION IF EXISTS callback_give_up(bigint, text);
