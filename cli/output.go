package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Output formats.
const (
	outputTable = "table"
	outputWide  = "wide"
	outputJSON  = "json"
	outputYAML  = "yaml"
	outputName  = "name"
	outputCSV   = "csv"
)

// output is the value of a flag -o. It accepts only the formats it was created with.
type output struct {
	format  string
	allowed []string
	// template is the part after a format such as jsonpath=.
	template string
}

func newOutput(first string, others ...string) *output {
	return &output{format: first, allowed: append([]string{first}, others...)}
}

// addTo adds -o to a command, with completion of the formats. If JSON is among them, --json is short for it, as scripts of the first gpuctl use it.
func (o *output) addTo(cmd *cobra.Command) {
	if slices.Contains(o.allowed, outputJSON) {
		short := cmd.Flags().VarPF(jsonFlag{o}, outputJSON, "", "Short for -o json")
		short.NoOptDefVal, short.Hidden = "true", true
	}
	cmd.Flags().VarP(o, "output", "o", "Output format: "+strings.Join(slices.DeleteFunc(
		slices.Clone(o.allowed), func(s string) bool { return s == "" }), ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.allowed, cobra.ShellCompDirectiveNoFileComp))
}

// String implements pflag.Value.
func (o *output) String() string { return o.format }

// Type implements pflag.Value.
func (o *output) Type() string { return "format" }

// Set implements pflag.Value.
func (o *output) Set(format string) error {
	name, template, _ := strings.Cut(format, "=")
	if slices.Contains(o.allowed, name+"=") && template != "" {
		o.format, o.template = name, template
		return nil
	}
	if !slices.Contains(o.allowed, format) || strings.HasSuffix(format, "=") {
		return phrase.Errorf("want one of %s", strings.Join(o.allowed, ", "))
	}
	o.format = format
	return nil
}

// jsonFlag is a switch that selects JSON.
type jsonFlag struct{ output *output }

// String implements pflag.Value.
func (f jsonFlag) String() string { return "false" }

// Type implements pflag.Value.
func (f jsonFlag) Type() string { return "bool" }

// IsBoolFlag allows the flag without a value.
func (f jsonFlag) IsBoolFlag() bool { return true }

// Set implements pflag.Value.
func (f jsonFlag) Set(text string) error {
	on, err := strconv.ParseBool(text)
	if err == nil && on {
		f.output.format = outputJSON
	}
	return err
}

// writeEncoded writes a value as JSON or YAML.
func writeEncoded(out io.Writer, format string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	// JSON is also YAML. Control characters that YAML would print unchanged are escaped in JSON.
	if err == nil && format == outputYAML && !bytes.ContainsFunc(data, isTerminalControl) {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return phrase.Errorf("encoding the result: %w", err)
	}
	_, err = fmt.Fprintln(out, strings.TrimRight(string(data), "\n"))
	return err
}

// list is the shape of every list in JSON and YAML.
type list[T any] struct {
	Items []T `json:"items"`
}

// formatAge formats the time since then, as kubectl does.
func formatAge(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(then))
}
