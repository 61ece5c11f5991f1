-- What became of telling an agent's target of its ends, a row for each agent that
-- had anything to tell. Times are unix milliseconds.
create table callbacks (
  child        text primary key,
  target       text not null,
  last_seq     integer not null,     -- of the newest debt that ever was
  notified_seq integer not null,
  notified_at  integer,
  error        text,                 -- of the last attempt, null once one succeeded
  unasked      integer not null      -- debts since the last message of a client
) strict, without rowid;

create index callbacks_target on callbacks (target) where unasked > 0;

-- What is still to be told: the outbox. A row goes when the target has it in its
-- session, or is removed. One of an agent that is removed stays.
create table debts (
  child  text not null,
  seq    integer not null,           -- 1 for the agent's first
  target text not null,
  nth    integer not null,           -- of the debts since the last message of a client, 0 if one came after it
  due    integer not null,           -- not to be sent before
  hold   integer not null,           -- until then only once nobody works for the child any more
  tries  integer not null,           -- that failed
  sent   integer not null check (sent in (0, 1)), -- it may have arrived all the same
  body   text not null,              -- JSON, whose meaning lies outside of the database
  primary key (child, seq)
) strict, without rowid;

create index debts_target on debts (target, due);
