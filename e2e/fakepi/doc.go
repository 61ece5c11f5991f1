// Command fakepi is a pi for tests. Built statically under the name "pi" it
// passes for a compiled pi, and runs alone in a cage that has nothing but its
// directory. It does what a real pi will not do when asked: die in the middle of
// a turn, print without end, never answer.
//
// What it knows of pi's command line:
//
//	pi --version
//	pi auth check --provider P --json [--credentials]
//	pi --mode rpc --provider P --model M [--session FILE] [--thinking LEVEL] ...
//
// The check says ready, with the credentials "fake-key", unless the file
// auth-P.json beside the executable has another answer; its status decides the
// exit code.
//
// In RPC mode it plays the script M.json beside the executable. Without that
// file, and for every command that the script does not mention, it follows the
// protocol of pi 1.6.0, with an answer of "You said: MESSAGE" that costs 10
// tokens in, 5 out and 0.25. It keeps the session file as pi does. It handles
// one command after another, where the real pi sometimes overtakes itself.
//
// # Scripts
//
//	{"start": [ACTION...], "on": {"COMMAND": [ACTION...], ...}, "eof": [ACTION...]}
//
// The actions of start are played before the first command is read, those of eof
// when the input has ended, before pi exits with 0. Those of a command replace
// the built-in answer; {"default":true} plays it. The actions of a prompt make
// pi busy until the last of them is done, while other commands are handled;
// those of any other command hold up the commands behind it.
//
// A prompt whose message is "!" and a list of actions plays these as its run. It
// is answered as started before, unless the first action is a respond; queued
// behind another run, it is answered as queued and played when its turn comes. A
// bad list is refused in the answer. A script with a word that is not below ends
// pi with exit code 1 and the reason on stderr.
//
// # Actions
//
//	{"write":"LINE"}                    the line and an LF, as it is
//	{"record":{...}}                    one record, members in this order
//	{"bytes":"BASE64","split":true}     bytes and no LF; split: one write for each
//	{"respond":{...}}                   answers the command, with members replaced or added
//	{"default":true}                    what happens without a script
//	{"turn":"TEXT","hold":"/path"}      a whole run, from agent_start to agent_settled, that
//	                                    answers TEXT; hold: after the first word, until the file exists
//	{"ask":{"method":"select",...}}     opens a dialog and waits for its answer
//	{"delay_ms":N}
//	{"wait_file":"/path"}               waits until the file exists
//	{"touch":"/path"}                   makes an empty file
//	{"file":"/path","content":"TEXT"}   writes a file
//	{"stderr":"TEXT","repeat":N}        N times, as it is
//	{"flood":BYTES}                     message_update records, at least so many bytes
//	{"line":BYTES,"type":"TYPE"}        one record with a string of so many bytes; as a
//	                                    "response" it answers the command
//	{"spawn":["/prog","ARG"...]}        starts a program in a session of its own
//	{"signal":"KILL"}                   sends itself a signal
//	{"exit":CODE}
//	{"hang":true}                       reads and writes nothing any more
//	{"ignore_eof":true}                 stays when the input ends
//
// An abort ends the run at once, also in the middle of delay_ms, wait_file, ask,
// flood and turn. If an agent_start without its agent_settled is on the output
// then, agent_end and agent_settled follow before the answer to the abort.
//
// What a script writes as its last action, for most an agent_settled, makes pi
// idle at the same moment. A second respond to one command does nothing.
package main
