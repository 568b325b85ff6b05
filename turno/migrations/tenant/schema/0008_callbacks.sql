-- Several addresses may be told of one end: their functions take other parameters.
DROP FUNCTION IF EXISTS callback_put(uuid, text);
DROP FUNCTION IF EXISTS callback_give_up(uuid, text);
