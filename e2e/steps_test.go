package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"pi-mcp/scripted"
)

// mcpTool is the name under which a real pi declares a tool of its endpoint.
func mcpTool(name string) string { return "mcp__pi_mcp__" + name }

// call is a message that has the model call one tool of the agent's endpoint.
func callTool(name string, args obj) string {
	text, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return "call: " + mcpTool(name) + " " + string(text)
}

// steps is a message that has the model do one thing after the other in one turn.
// Each is a message of its own, "bash: COMMAND" or "call: TOOL JSON", of one line;
// with "and: " before it, it is asked for together with the one before. In a later
// one, <N.FIELD> stands for a field of the JSON that the N-th call returned, counted
// from 1, and <N> for all its text. The answer of the turn is what the last call
// returned.
func steps(all ...string) string { return "steps: " + strings.Join(all, "\n") }

// step returns the tool calls that are due, nil when the last message asks for none
// or all are done.
func step(r scripted.Request) (calls []scripted.ToolCall) {
	last := r.Last()
	if verb, rest, _ := strings.Cut(last, ": "); verb == "steps" {
		last = rest
	} else if verb == "bash" || verb == "call" {
		last = strings.ReplaceAll(last, "\n", "\x00") // one step, whatever is in it
	} else {
		return nil
	}
	done, results := progress(r)
	number := -1
	for _, line := range strings.Split(last, "\n") {
		line, joined := strings.CutPrefix(strings.ReplaceAll(line, "\x00", "\n"), "and: ")
		if !joined {
			number++
		}
		if number == done {
			calls = append(calls, toolCall(quote(line, results)))
		}
	}
	return calls
}

// progress returns how many answers since the last message of the user asked for
// tools, and what these returned.
func progress(r scripted.Request) (answers int, results []string) {
	for _, m := range r.Messages {
		switch {
		case m.Role == "user":
			answers, results = 0, nil
		case len(m.ToolCalls) > 0:
			answers++
		case m.Role == "tool":
			results = append(results, m.Text)
		}
	}
	return answers, results
}

func toolCall(line string) scripted.ToolCall {
	verb, rest, _ := strings.Cut(line, ": ")
	if verb == "bash" {
		return scripted.Call("bash", obj{"command": rest})
	}
	name, args, _ := strings.Cut(rest, " ")
	return scripted.ToolCall{Name: name, Arguments: args}
}

var reference = regexp.MustCompile(`<(\d+)(?:\.(\w+))?>`)

// quote puts earlier results into a step. What is not there stays as it is, so that the
// call fails and the test shows it.
func quote(line string, results []string) string {
	return reference.ReplaceAllStringFunc(line, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		n, _ := strconv.Atoi(m[1])
		if n < 1 || n > len(results) {
			return ref
		}
		if m[2] == "" {
			return results[n-1]
		}
		var fields obj
		if json.Unmarshal([]byte(results[n-1]), &fields) != nil {
			return ref
		}
		return fmt.Sprint(fields[m[2]])
	})
}
