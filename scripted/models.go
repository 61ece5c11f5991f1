package scripted

import "encoding/json"

// contextWindow is the context window that [Server.Models] claims, in tokens.
const contextWindow = 128_000

// The parts of pi's models.json, under pi's names.
type modelsFile struct {
	Providers map[string]provider `json:"providers"`
}

type provider struct {
	BaseURL string  `json:"baseUrl"`
	API     string  `json:"api"`
	Models  []model `json:"models"`
}

type model struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	ContextWindow int    `json:"contextWindow"`
	MaxTokens     int    `json:"maxTokens"`
	Cost          cost   `json:"cost"`
}

// cost is in USD per million tokens.
type cost struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead"`
	CacheWrite float64 `json:"cacheWrite"`
}

// Models returns a models.json that makes the server known to pi as provider
// [Provider] with the one model [Model]: 128,000 tokens of context, and prices
// that are not zero, so that costs show. It holds no key: pi wants one, any,
// in auth.json or the environment. Valid after Serve.
func (s *Server) Models() []byte {
	data, _ := json.MarshalIndent(modelsFile{Providers: map[string]provider{
		Provider: {
			BaseURL: s.URL(),
			API:     "openai-completions",
			Models: []model{{
				ID:            Model,
				Name:          "Scripted",
				ContextWindow: contextWindow,
				MaxTokens:     16_384,
				Cost:          cost{Input: 1, Output: 2, CacheRead: 0.1, CacheWrite: 1.25},
			}},
		},
	}}, "", "  ") // strings and numbers only
	return append(data, '\n')
}
