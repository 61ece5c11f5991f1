package pi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// fields is a JSON object whose values are kept as they were written: pi has
// more fields than this package knows.
type fields = map[string]json.RawMessage

// modelsFile is models.json with one provider, or none when pi's own knowledge
// of it is enough.
func modelsFile(c FilesConfig) (object, error) {
	providers := object{}
	path := filepath.Join(c.HostDir, "models.json")
	def, err := hostProvider(c.HostDir, path, c.Provider)
	if err == nil {
		err = narrow(def, c)
	}
	if err == nil && c.ContextSize > 0 {
		err = widen(def, c)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the definition of provider %q in %s: %w", c.Provider, path, err)
	}
	if says(def) {
		providers[c.Provider] = def
	}
	return object{"providers": providers}, nil
}

// hostProvider returns an empty definition when the host has none.
func hostProvider(dir, path, provider string) (fields, error) {
	if dir == "" {
		return fields{}, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fields{}, nil
	}
	if err != nil {
		return nil, err
	}
	var file fields
	var providers map[string]fields
	if err := json.Unmarshal(plainJSON(text), &file); err != nil {
		return nil, err
	}
	if err := decode(file, "providers", &providers); err != nil {
		return nil, err
	}
	if def := providers[provider]; def != nil {
		return def, nil
	}
	return fields{}, nil
}

// says reports whether a definition has anything that pi accepts as one; it
// reports an error for the others.
func says(def fields) bool {
	for _, name := range []string{"models", "baseUrl", "headers", "compat", "modelOverrides", "oauth", "authHeader"} {
		if def[name] != nil {
			return true
		}
	}
	return false
}

// narrow takes out the key and checks the headers that will be sent.
func narrow(def fields, c FilesConfig) error {
	delete(def, "apiKey")
	if err := checkHeaders(def); err != nil {
		return err
	}
	return eachModel(def, func(id string, model fields) error {
		if id == c.Model {
			return checkHeaders(model)
		}
		delete(model, "headers")
		return nil
	})
}

func checkHeaders(def fields) error {
	var headers map[string]string
	if def["headers"] == nil {
		return nil
	}
	if err := json.Unmarshal(def["headers"], &headers); err != nil {
		return fmt.Errorf("headers: %w", err)
	}
	for name, value := range headers {
		if refers(value) {
			return fmt.Errorf("its header %q refers to the environment or a command of the host, "+
				"which an agent does not have: write the value itself", name)
		}
	}
	return nil
}

// widen sets the context window of the selected model. modelOverrides goes on
// top of every other source, but not every pi applies it to models of the
// host's own; so those are changed where they are defined too.
func widen(def fields, c FilesConfig) error {
	window, err := json.Marshal(Window(c.ContextSize))
	if err != nil {
		return err
	}
	overrides := map[string]fields{}
	if err := decode(def, "modelOverrides", &overrides); err != nil {
		return err
	}
	if overrides == nil {
		overrides = map[string]fields{}
	}
	if overrides[c.Model] == nil {
		overrides[c.Model] = fields{}
	}
	if def["modelOverrides"], err = json.Marshal(overrides); err != nil {
		return err
	}
	return eachModel(def, func(id string, model fields) error {
		if id == c.Model {
			model["contextWindow"] = window
		}
		return nil
	})
}

// eachModel lets change edit every entry of models and modelOverrides.
func eachModel(def fields, change func(id string, model fields) error) error {
	var models []fields
	overrides := map[string]fields{}
	if err := errors.Join(decode(def, "models", &models), decode(def, "modelOverrides", &overrides)); err != nil {
		return err
	}
	for i, model := range models {
		if model == nil {
			return fmt.Errorf("models[%d] is null", i)
		}
		var id string
		if err := decode(model, "id", &id); err != nil {
			return fmt.Errorf("models[%d]: %w", i, err)
		}
		if err := change(id, model); err != nil {
			return fmt.Errorf("model %q: %w", id, err)
		}
	}
	for id, model := range overrides {
		if err := change(id, model); err != nil {
			return fmt.Errorf("modelOverrides of %q: %w", id, err)
		}
	}
	return errors.Join(replace(def, "models", models), replace(def, "modelOverrides", overrides))
}

// decode leaves v alone when the field is missing.
func decode(def fields, name string, v any) error {
	if def[name] == nil {
		return nil
	}
	if err := json.Unmarshal(def[name], v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// replace writes a field back; it never adds one.
func replace(def fields, name string, v any) (err error) {
	if def[name] != nil {
		def[name], err = json.Marshal(v)
	}
	return err
}
