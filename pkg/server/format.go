package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/danielgtaylor/huma/v2"
	strictjson "sigs.k8s.io/json"
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
	asJSON := huma.Format{Marshal: encodeJSON, Unmarshal: decodeJSON}
	return map[string]huma.Format{jsonType: asJSON, "json": asJSON, yamlType: asYAML, "yaml": asYAML}
}

// yamlBody is what a request in YAML may hold: no aliases, above all.
var yamlBody = safeyaml.Limits{Values: maxValues, Depth: maxDepth, NoAliases: true}

// maxSeparators bounds what a parser makes of a request in YAML before anything can be counted: each value is some
// hundred times the memory of its text. Ordinary lines are as long as the 35 bytes that are left for each of a large body.
const maxSeparators = 60_000

// separators is how many values a text in YAML may have.
func separators(text []byte) int {
	n := 0
	for _, separator := range []string{"\n", ",", "[", "{"} {
		n += bytes.Count(text, []byte(separator))
	}
	return n
}

func decodeYAML(data []byte, v any) error { return safeyaml.UnmarshalStrict(data, v, yamlBody) }

// decodeJSON reads JSON, in which a name that is given twice is an error: one of the two would be left out. huma reads
// each body into a value of any type first, where that is found.
func decodeJSON(data []byte, v any) error {
	into, any := v.(*any)
	if !any {
		return json.Unmarshal(data, v)
	}
	problems, err := strictjson.UnmarshalStrict(data, into, strictjson.DisallowDuplicateFields)
	return errors.Join(append(problems, err)...)
}

func encodeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}
