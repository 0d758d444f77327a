package server

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/danielgtaylor/huma/v2"
	"sigs.k8s.io/yaml"
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
		Unmarshal: func(data []byte, v any) error { return yaml.Unmarshal(data, v) },
	}
	asJSON := huma.Format{Marshal: encodeJSON, Unmarshal: json.Unmarshal}
	return map[string]huma.Format{jsonType: asJSON, "json": asJSON, yamlType: asYAML, "yaml": asYAML}
}

func encodeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}
