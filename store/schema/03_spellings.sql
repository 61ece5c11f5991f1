-- How granted paths were written when they were asked for, where that led through
-- symlinks; a JSON array.
alter table agents add column spellings text not null default '[]';
