-- What an access token can see. The token itself is not kept. The group of those
-- who bring no token has no row: its id is the word "default".
create table groups (
  hash     blob primary key check (length(hash) >= 16),
  "group"  text not null unique,
  by_agent integer not null check (by_agent in (0, 1)) -- a caged agent chose the token
) strict, without rowid;
