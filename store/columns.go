package store

import (
	"database/sql"
	"strings"
)

// A column is a column of agents and where its value is read to or written from.
type column struct {
	name string
	at   any
}

// fixed is how many columns, from the first, Save leaves alone. All but the last
// column is what List reads.
const fixed = 9

// columns is the one place that ties fields to columns. Every statement and every
// scan follows its order.
func (a *Agent) columns() []column {
	return []column{
		{`id`, &a.ID}, {`"group"`, &a.Group}, {`parent`, &a.Parent}, {`depth`, &a.Depth},
		{`created`, moment{&a.Created}}, {`ancestors`, list{&a.Ancestors}}, {`account`, &a.Account},
		{`ceiling`, ceiling{&a.Ceiling}}, {`descendants`, &a.Descendants},

		{`name`, &a.Name}, {`provider`, &a.Provider}, {`model`, &a.Model},
		{`context_size`, &a.ContextSize}, {`thinking`, &a.Thinking}, {`cwd`, &a.Cwd},
		{`writable`, list{&a.Write}}, {`readable`, list{&a.Read}}, {`denied`, list{&a.Denied}},
		{`spellings`, list{&a.Spellings}},
		{`callback`, &a.Callback}, {`network`, &a.Network}, {`model_host`, &a.ModelHost},

		{`state`, &a.State}, {`resume`, &a.Resume}, {`ready`, &a.Ready},
		{`living`, &a.Living}, {`removing`, &a.Removing}, {`owner`, &a.Owner},
		{`pid`, &a.PID}, {`pid_start`, &a.PIDStart}, {`boot`, &a.Boot},

		{`updated`, moment{&a.Updated}}, {`last_activity`, moment{&a.LastActivity}},
		{`ripped`, maybe{&a.RippedAt}}, {`resurrected`, maybe{&a.ResurrectedAt}},

		{`user_messages`, &a.Messages.User}, {`assistant_messages`, &a.Messages.Assistant},
		{`tool_calls`, &a.Messages.ToolCalls},
		{`input_tokens`, &a.Tokens.Input}, {`output_tokens`, &a.Tokens.Output},
		{`cache_read_tokens`, &a.Tokens.CacheRead}, {`cache_write_tokens`, &a.Tokens.CacheWrite},
		{`total_tokens`, &a.Tokens.Total}, {`cost`, &a.Cost},
		{`settle_count`, &a.SettleCount}, {`dialogs`, &a.Dialogs}, {`last_dialog`, &a.LastDialog},
		{`last_error`, &a.LastError}, {`exit_code`, &a.ExitCode},
		{`retries`, &a.Retries}, {`rips`, &a.Rips}, {`self_exits`, &a.SelfExits},
		{`stdout_bytes`, &a.StdoutBytes}, {`stderr_bytes`, &a.StderrBytes},
		{`session_bytes`, &a.SessionBytes}, {`bytes_out`, &a.BytesOut}, {`bytes_in`, &a.BytesIn},

		{`last_text_bytes`, &a.LastTextBytes}, {`last_text`, &a.LastText},
	}
}

// The statements that name every column.
var (
	names       = columnNames()
	whole       = len(names)
	selectWhole = "select " + strings.Join(names, ", ")
	selectBrief = "select " + strings.Join(names[:whole-1], ", ")
	insertAgent = "insert into agents (" + strings.Join(names, ", ") +
		") values (?" + strings.Repeat(", ?", whole-1) + ")"
	updateAgent = "update agents set " + strings.Join(names[fixed:], " = ?, ") + " = ? where id = ?"
)

func columnNames() []string {
	var all []string
	for _, c := range new(Agent).columns() {
		all = append(all, c.name)
	}
	return all
}

// places are the first n columns' places in a.
func (a *Agent) places(n int) []any {
	all := make([]any, n)
	for i, c := range a.columns()[:n] {
		all[i] = c.at
	}
	return all
}

// collect reads all rows of n columns, and closes them.
func collect(rows *sql.Rows, n int) ([]Agent, error) {
	defer rows.Close()
	var all []Agent
	var a Agent // one for all rows: a scan makes what a pointer points to anew
	at := a.places(n)
	for rows.Next() {
		if err := rows.Scan(at...); err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, rows.Err()
}
