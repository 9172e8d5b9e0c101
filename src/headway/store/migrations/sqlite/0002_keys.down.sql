DROP TABLE key_note;
DROP TABLE api_key;
