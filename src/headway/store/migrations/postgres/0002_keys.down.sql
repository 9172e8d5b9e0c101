DROP TYPE key_use_given;
DROP TYPE key_note_given;
DROP TYPE api_key_given;
DROP TABLE key_note;
DROP TABLE api_key;
