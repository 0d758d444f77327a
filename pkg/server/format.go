package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/safeyaml"
)

const (
	jsonType   = "application/json"
	yamlType   = "application/yaml"
	streamType = "text/event-stream"
)

// formats are those of bodies: JSON, and YAML for people.
func formats() map[string]huma.Format {
	asYAML := huma.Format{
		Marshal: func(w io.Writer, v any) error {
			data, err := yaml.Marshal(v)
			if err != nil {
				return fmt.Errorf("encoding YAML: %w", err)
			}
			_, err = w.Write(data)
			return err
		},
		Unmarshal: decodeYAML,
	}
	asJSON := huma.Format{Marshal: encodeJSON, Unmarshal: json.Unmarshal}
	return map[string]huma.Format{jsonType: asJSON, "json": asJSON, yamlType: asYAML, "yaml": asYAML}
}

// yamlBody is what a request in YAML may hold: more values than any route takes, and no aliases.
var yamlBody = safeyaml.Limits{Values: 20_000, Depth: 40, NoAliases: true}

// maxSeparators bounds what a parser makes of a request in YAML before anything can be counted: each value is some
// hundred times the memory of its text. Ordinary lines are longer than the fourteen bytes that are left for each.
const maxSeparators = 150_000

// oneYAML lets one request in YAML be parsed at a time.
var oneYAML sync.Mutex

func decodeYAML(data []byte, v any) error {
	separators := 0
	for _, separator := range []string{"\n", ",", "[", "{"} {
		separators += bytes.Count(data, []byte(separator))
	}
	if separators > maxSeparators {
		return fmt.Errorf("the body has %d lines, commas and brackets, at most %d are read as YAML: send JSON", separators, maxSeparators)
	}
	oneYAML.Lock()
	defer oneYAML.Unlock()
	return safeyaml.Unmarshal(data, v, yamlBody)
}

func encodeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}
