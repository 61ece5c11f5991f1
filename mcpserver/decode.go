package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
)

// decode reads the arguments of a call into value. The schema says what is
// allowed; the errors name the argument and say what to pass instead, because
// their reader is a model that will try again.
func decode(s *jsonschema.Schema, raw json.RawMessage, value any) error {
	args := map[string]json.RawMessage{}
	if text := bytes.TrimSpace(raw); len(text) > 0 && string(text) != "null" {
		if err := json.Unmarshal(text, &args); err != nil {
			return fmt.Errorf("arguments: pass a JSON object with the keys %s", keys(s))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) { // so that the same call gets the same error
		if s.Properties[name] == nil {
			return fmt.Errorf("%s: there is no such argument; this tool takes %s", shown(name), keys(s))
		}
		if string(args[name]) == "null" {
			delete(args, name)
		}
	}
	for _, name := range s.Required {
		if args[name] == nil {
			return fmt.Errorf("%s: is required; pass %s", name, wanted(s.Properties[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		fixed, err := check(name, s.Properties[name], args[name])
		if err != nil {
			return err
		}
		args[name] = fixed
	}
	clean, err := json.Marshal(args)
	if err != nil {
		return err
	}
	return json.Unmarshal(clean, value)
}

// check holds one argument against its schema. It returns the argument as
// encoding/json reads it: integers may come written as 5.0 or 5e0.
func check(name string, p *jsonschema.Schema, text json.RawMessage) (json.RawMessage, error) {
	wrong := func() error { return fmt.Errorf("%s: pass %s", name, wanted(p)) }
	switch p.Type {
	case "string":
		var v string
		if json.Unmarshal(text, &v) != nil || len(p.Enum) > 0 && !slices.Contains(p.Enum, any(v)) {
			return nil, wrong()
		}
		if strings.ContainsRune(v, 0) {
			return nil, fmt.Errorf("%s: must not contain a NUL character", name)
		}
	case "boolean":
		var v bool
		if json.Unmarshal(text, &v) != nil {
			return nil, wrong()
		}
	case "integer":
		v, ok := integer(p, text)
		if !ok {
			return nil, wrong()
		}
		return strconv.AppendInt(nil, v, 10), nil
	case "array":
		var all []json.RawMessage
		if json.Unmarshal(text, &all) != nil {
			return nil, wrong()
		}
		for i, item := range all {
			if string(item) == "null" {
				return nil, wrong()
			}
			if _, err := check(fmt.Sprintf("%s[%d]", name, i), p.Items, item); err != nil {
				return nil, err
			}
		}
	case "object":
		return values(name, p, text)
	default:
		return nil, fmt.Errorf("%s: has the unexpected schema type %q", name, p.Type)
	}
	return text, nil
}

// values is check for an object whose keys are the caller's.
func values(name string, p *jsonschema.Schema, text json.RawMessage) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil {
		return nil, fmt.Errorf("%s: pass %s", name, wanted(p))
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		at := fmt.Sprintf("%s[%s]", name, shown(key))
		if string(all[key]) == "null" {
			return nil, fmt.Errorf("%s: pass %s, or leave the key out", at, wanted(p.AdditionalProperties))
		}
		fixed, err := check(at, p.AdditionalProperties, all[key])
		if err != nil {
			return nil, err
		}
		all[key] = fixed
	}
	return json.Marshal(all)
}

// exact is the greatest integer up to which JSON's numbers are exact everywhere.
const exact = 1 << 53

// integer reads a whole number and holds it against the bounds. One without
// bounds is clamped by its handler, so it is never too large here.
func integer(p *jsonschema.Schema, text json.RawMessage) (n int64, ok bool) {
	var v float64
	if json.Unmarshal(text, &v) != nil || v != math.Trunc(v) {
		return 0, false
	}
	least, most := -math.MaxFloat64, math.MaxFloat64
	if p.Minimum != nil {
		least, most = *p.Minimum, exact
	}
	if p.Maximum != nil {
		most = *p.Maximum
	}
	if v < least || v > most {
		return 0, false
	}
	return int64(min(max(v, -exact), exact)), true
}

// wanted says in words what a schema allows.
func wanted(p *jsonschema.Schema) string {
	switch {
	case len(p.Enum) > 0:
		names := make([]string, len(p.Enum))
		for i, v := range p.Enum {
			names[i] = fmt.Sprintf("%q", v)
		}
		return "one of " + strings.Join(names, ", ")
	case p.Type == "array" && len(p.Items.Enum) > 0:
		return "an array, each item " + wanted(p.Items)
	case p.Type == "array":
		return "an array of strings"
	case p.Type == "object":
		return "an object in which each value is " + wanted(p.AdditionalProperties)
	case p.Type == "boolean":
		return "true or false"
	case p.Type == "integer" && p.Minimum != nil && p.Maximum != nil:
		return fmt.Sprintf("an integer from %.0f to %.0f", *p.Minimum, *p.Maximum)
	case p.Type == "integer" && p.Minimum != nil:
		return fmt.Sprintf("an integer of at least %.0f, less than 2 to the power of 53", *p.Minimum)
	case p.Type == "integer":
		return "an integer"
	}
	return "a string"
}

// keys lists the arguments of a schema.
func keys(s *jsonschema.Schema) string {
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	if len(names) == 0 {
		return "no arguments"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// shown is the name of an argument that nobody knows: as it is, or quoted and cut
// when it would make the error hard to read.
func shown(name string) string {
	strange := func(r rune) bool { return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	switch {
	case len(name) > 100:
		return strconv.Quote(strings.ToValidUTF8(name[:100], "") + "...")
	case name == "" || strings.ContainsFunc(name, strange):
		return strconv.Quote(name)
	}
	return name
}
