-- Facts about this file. id tells directories made for it from other ones.
create table meta (
  key   text primary key,
  value text not null
) strict, without rowid;

-- A random (version 4) UUID.
insert into meta (key, value)
values ('id', lower(printf('%s-%s-4%s-%s%s-%s',
  hex(randomblob(4)),
  hex(randomblob(2)),
  substr(hex(randomblob(2)), 2),
  substr('89ab', 1 + (random() & 3), 1),
  substr(hex(randomblob(2)), 2),
  hex(randomblob(6)))));

-- One row an agent. Times are unix milliseconds, path lists JSON arrays, and
-- state a name whose meaning lies outside of the database.
create table agents (
  id            text primary key,      -- UUIDv7: the order of ids is the order of making
  "group"       text not null,
  parent        text not null,         -- '': made by a client
  depth         integer not null,
  created       integer not null,
  ancestors     text not null,         -- ids, from the one that a client made down to the parent
  account       text not null,         -- group of the first ancestor, or its own: whose limits it counts against
  ceiling       text not null,         -- what its rules may never exceed, '': nothing bounds them
  descendants   integer not null,      -- that it has ever had, at any depth; only inserts change it

  name          text not null,
  provider      text not null,
  model         text not null,
  context_size  integer not null,      -- 0: the model's own
  thinking      text not null,
  cwd           text not null,
  writable      text not null,
  readable      text not null,
  denied        text not null,
  spellings     text not null,         -- of those paths, as they were given, where a symlink is in them
  callback      text not null,         -- '': nobody is told
  network       text not null,         -- what it may reach
  model_host    text not null,         -- '': not known yet

  state         text not null,
  resume        text not null,         -- state to go back to when a start fails
  ready         integer not null check (ready in (0, 1)), -- it has answered at least once
  living        integer not null check (living in (0, 1)),
  removing      integer not null check (removing in (0, 1)),
  owner         text not null,         -- the server that answers for the row
  pid           integer not null,
  pid_start     integer not null,
  boot          text not null,

  updated       integer not null,
  last_activity integer not null,
  ripped        integer,
  resurrected   integer,

  user_messages      integer not null,
  assistant_messages integer not null,
  tool_calls         integer not null,
  input_tokens       integer not null,
  output_tokens      integer not null,
  cache_read_tokens  integer not null,
  cache_write_tokens integer not null,
  total_tokens       integer not null,
  cost               real not null,
  settle_count       integer not null,
  dialogs            integer not null,
  last_dialog        text not null,
  last_error         text,
  exit_code          integer,
  retries            integer not null,
  rips               integer not null,
  self_exits         integer not null,
  stdout_bytes       integer not null,
  stderr_bytes       integer not null,
  session_bytes      integer not null,
  bytes_out          integer not null,
  bytes_in           integer not null,

  -- Last, since it is long: what is read of the columns above never touches the
  -- pages that it overflows to.
  last_text_bytes    integer not null, -- of the whole text, of which the start may be missing
  last_text          text,

  -- Without it a row would have nobody to finish it after a crash.
  check ((owner <> '') = (living or removing))
) strict;

-- Every column that a total or a count asks for is in its index, the condition's
-- own too: otherwise SQLite reads each row to see it.
create index agents_list on agents ("group", removing, id, state);
create index agents_living on agents ("group", account, living) where living = 1;
create index agents_owner on agents (owner) where owner <> '';
create index agents_parent on agents (parent, "group", removing) where parent <> '';
create index agents_callback on agents (callback, state) where callback <> '';
