DROP TABLE memberships;
DROP TABLE users;
DROP TABLE teams;
