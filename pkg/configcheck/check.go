// Package configcheck explains a configuration of the scheduler: which plugins run at each extension point and in which order, with which weights and
// arguments, and how that differs from another configuration. It uses the code with which the scheduler itself starts, so that a configuration it
// accepts starts, and one it refuses does not.
package configcheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	configscheme "g8s.host/gpu-scheduler/pkg/apis/config/scheme"
	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
	"g8s.host/gpu-scheduler/pkg/simulate"
)

// MountedConfig is the JSONPath of the ConfigMap name that the scheduler's Deployment mounts: each configuration has its own name.
const MountedConfig = `{.spec.template.spec.volumes[?(@.name=="config")].configMap.name}`

// Meaning is a configuration with all defaults filled in.
type Meaning struct {
	// Warnings are about settings that are accepted but probably not intended.
	Warnings []string `json:"warnings,omitempty"`
	// Settings is everything except the profiles.
	Settings map[string]any `json:"settings,omitempty"`
	Profiles []Profile      `json:"profiles"`
}

// IsPolicy reports whether it is only a scoring policy.
func (m *Meaning) IsPolicy() bool { return m.Settings == nil }

// twinOf returns the first profile that means the same as a later one, "" for none.
func (m *Meaning) twinOf(number int) string {
	for _, other := range m.Profiles[:number] {
		same := m.Profiles[number]
		if same.SchedulerName = other.SchedulerName; reflect.DeepEqual(same, other) {
			return other.SchedulerName
		}
	}
	return ""
}

// Profile is one scheduler of the process.
type Profile struct {
	SchedulerName string `json:"schedulerName"`
	// PercentageOfNodesToScore is nil if the one in the settings applies.
	PercentageOfNodesToScore *int32  `json:"percentageOfNodesToScore,omitempty"`
	Points                   []Point `json:"points"`
	// Args are the arguments of the active plugins, by plugin.
	Args map[string]any `json:"args"`
}

// Point is one extension point with its plugins, in the order in which they run.
type Point struct {
	Name    string   `json:"name"`
	Plugins []Plugin `json:"plugins"`
}

// Plugin is one plugin at an extension point. Weight is 0 except for score.
type Plugin struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight,omitempty"`
}

// Mistakes are unknown fields.
type Mistakes []Problem

func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, problem := range m {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// Read returns the meaning of a KubeSchedulerConfiguration, or of a scoring policy (kind GPUScoreArgs), which is a profile without plugins. The error
// is [Mistakes] if there are unknown fields, and otherwise the scheduler's own startup error.
func Read(ctx context.Context, data []byte) (*Meaning, error) {
	root, warnings, err := parseFirstDocument(data)
	if err != nil {
		return nil, err
	}
	switch kind := mappingValue(root, "kind"); kind {
	case "ConfigMap", "List":
		return nil, fmt.Errorf("it is a %s: give the configuration within, as "+`kubectl get configmap -n kube-system `+
			`-o 'jsonpath={.data.scheduler-config\.yaml}' $(kubectl get deployment gpu-scheduler -n kube-system `+
			`-o 'jsonpath=`+MountedConfig+`') prints it`, kind)
	case "GPUScoreArgs":
		return readPolicy(root, data, warnings)
	}
	warning, err := configscheme.CheckVersion(data)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error is complete
	}
	if warning != "" {
		warnings = append(warnings, warning)
	}
	if err := checkUnknownFields(root, reflect.TypeFor[kubeschedulerv1.KubeSchedulerConfiguration]()); err != nil {
		return nil, err
	}
	cfg, err := simulate.ParseConfig(data)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error is complete
	}
	return newMeaning(ctx, cfg, append(warnings, classicWarnings(root)...))
}

// parseFirstDocument parses the first document, the only one that the scheduler reads.
func parseFirstDocument(data []byte) (root *yaml.Node, warnings []string, err error) {
	var documents [2]yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&documents[0]); errors.Is(err, io.EOF) {
		return nil, nil, errors.New("there is nothing in it")
	} else if err != nil {
		return nil, nil, err //nolint:wrapcheck // the error contains the line
	}
	if problem := safeyaml.Unfold(&documents[0], safeyaml.Configuration); problem != nil {
		return nil, nil, problem
	}
	if err := decoder.Decode(&documents[1]); !errors.Is(err, io.EOF) {
		warnings = append(warnings, "there is a second document behind ---, which the scheduler does not read")
	}
	root = documents[0].Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, nil, fmt.Errorf("line %d: want fields such as apiVersion, kind and profiles", root.Line)
	}
	return root, warnings, nil
}

func checkUnknownFields(root *yaml.Node, of reflect.Type) error {
	known := scheme.Scheme.KnownTypes(kubeschedulerv1.SchemeGroupVersion)
	w := &walker{argsOf: func(plugin string) reflect.Type { return known[plugin+"Args"] }}
	if w.walkNode(root, of, ""); len(w.problems) > 0 {
		return Mistakes(w.problems)
	}
	return nil
}

func readPolicy(root *yaml.Node, data []byte, warnings []string) (*Meaning, error) {
	if err := checkUnknownFields(root, reflect.TypeFor[configv1.GPUScoreArgs]()); err != nil {
		return nil, err
	}
	args, err := configv1.ParseScorePolicy(data)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error is complete
	}
	values, err := toGenericMap(args)
	if err != nil {
		return nil, err
	}
	return &Meaning{Warnings: warnings, Profiles: []Profile{{Args: map[string]any{"GPUScore": values}}}}, nil
}

func newMeaning(ctx context.Context, cfg *config.KubeSchedulerConfiguration, warnings []string) (*Meaning, error) {
	plugins, err := simulate.Plugins(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("making the plugins: %w", err)
	}
	written, err := runtime.Encode(scheme.Codecs.LegacyCodec(kubeschedulerv1.SchemeGroupVersion), cfg)
	if err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	var whole struct {
		Profiles []struct {
			PluginConfig []struct {
				Name string         `json:"name"`
				Args map[string]any `json:"args"`
			} `json:"pluginConfig"`
		} `json:"profiles"`
	}
	meaning := &Meaning{Warnings: warnings, Settings: map[string]any{}}
	if err := errors.Join(json.Unmarshal(written, &whole), json.Unmarshal(written, &meaning.Settings)); err != nil {
		return nil, fmt.Errorf("reading the configuration that was written: %w", err)
	}
	for _, field := range []string{"apiVersion", "kind", "profiles"} {
		delete(meaning.Settings, field)
	}
	meaning.Warnings = append(meaning.Warnings, leaderElectionWarnings(&cfg.LeaderElection)...)
	for i := range cfg.Profiles {
		given := cfg.Profiles[i]
		profile := Profile{
			SchedulerName: given.SchedulerName, PercentageOfNodesToScore: given.PercentageOfNodesToScore,
			Points: extensionPoints(plugins[given.SchedulerName]), Args: map[string]any{},
		}
		for _, plugin := range whole.Profiles[i].PluginConfig {
			delete(plugin.Args, "apiVersion")
			delete(plugin.Args, "kind")
			if profile.runsPlugin(plugin.Name) {
				profile.Args[plugin.Name] = plugin.Args
			}
		}
		meaning.Profiles = append(meaning.Profiles, profile)
		if meaning.twinOf(i) == "" {
			meaning.Warnings = append(meaning.Warnings, profileWarnings(&profile, &given)...)
		}
	}
	return meaning, nil
}

// extensionPoints lists the extension points with plugins, in the order of a scheduling cycle.
func extensionPoints(plugins *config.Plugins) []Point {
	all := []struct {
		name string
		set  config.PluginSet
	}{
		{"preEnqueue", plugins.PreEnqueue},
		{"queueSort", plugins.QueueSort},
		{"preFilter", plugins.PreFilter},
		{"filter", plugins.Filter},
		{"postFilter", plugins.PostFilter},
		{"preScore", plugins.PreScore},
		{"score", plugins.Score},
		{"reserve", plugins.Reserve},
		{"permit", plugins.Permit},
		{"preBind", plugins.PreBind},
		{"bind", plugins.Bind},
		{"postBind", plugins.PostBind},
	}
	var points []Point
	for _, at := range all {
		point := Point{Name: at.name}
		for _, plugin := range at.set.Enabled {
			point.Plugins = append(point.Plugins, Plugin{plugin.Name, plugin.Weight})
		}
		if len(point.Plugins) > 0 {
			points = append(points, point)
		}
	}
	return points
}

func toGenericMap(value any) (map[string]any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("writing the arguments: %w", err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("reading the arguments that were written: %w", err)
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	return fields, nil
}
