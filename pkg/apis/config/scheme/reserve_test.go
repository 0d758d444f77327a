package scheme_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// TestAProfileWithoutGPUReserveKeepsNodesAsBefore has profiles of the time when GPUScore kept nodes itself.
func TestAProfileWithoutGPUReserveKeepsNodesAsBefore(t *testing.T) {
	tests := map[string]struct{ plugins, want string }{
		"everywhere": {
			"{multiPoint: {enabled: [{name: GPUScore, weight: 10000}, {name: GPUFilter}]}}",
			"multiPoint +GPUScore:10000 +GPUReserve +GPUFilter",
		},
		"where it was named": {
			"{preFilter: {enabled: [{name: GPUScore}]}, filter: {enabled: [{name: GPUScore}, {name: GPUFilter}]}, score: {enabled: [{name: GPUScore}]}}",
			"preFilter +GPUScore +GPUReserve, filter +GPUReserve +GPUFilter, score +GPUScore",
		},
		"nowhere, where it only scored": {
			"{filter: {enabled: [{name: GPUFilter}]}, score: {enabled: [{name: GPUScore}]}}",
			"filter +GPUFilter, score +GPUScore",
		},
		"not where that was turned off": {
			"{multiPoint: {enabled: [{name: GPUScore}]}, filter: {disabled: [{name: GPUScore}]}}",
			"multiPoint +GPUScore +GPUReserve, filter -GPUReserve",
		},
		"nor where it is turned off": {
			"{multiPoint: {enabled: [{name: GPUScore}], disabled: [{name: GPUReserve}]}}",
			"multiPoint +GPUScore -GPUReserve",
		},
		"as it says, where it names the plugin": {
			"{multiPoint: {enabled: [{name: GPUReserve}, {name: GPUScore}]}}",
			"multiPoint +GPUReserve +GPUScore",
		},
		"nothing to keep without GPUScore": {
			"{multiPoint: {enabled: [{name: GPUFilter}]}}",
			"multiPoint +GPUFilter",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg, err := decode(t, "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
				"profiles: [{schedulerName: gpu-scheduler, plugins: "+tc.plugins+"}]\n")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, oursIn(cfg.Profiles[0].Plugins)); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
		})
	}
}

// oursIn are the plugins of ours that a profile enables and disables.
func oursIn(plugins *config.Plugins) string {
	points := []struct {
		name string
		set  config.PluginSet
	}{{"multiPoint", plugins.MultiPoint}, {"preFilter", plugins.PreFilter}, {"filter", plugins.Filter}, {"score", plugins.Score}}
	var texts []string
	for _, point := range points {
		if text := named("+", point.set.Enabled) + named("-", point.set.Disabled); text != "" {
			texts = append(texts, point.name+text)
		}
	}
	return strings.Join(texts, ", ")
}

func named(sign string, list []config.Plugin) string {
	text := ""
	for _, plugin := range slices.DeleteFunc(slices.Clone(list), func(p config.Plugin) bool { return !strings.HasPrefix(p.Name, "GPU") }) {
		text += " " + sign + plugin.Name
		if plugin.Weight > 0 {
			text += fmt.Sprint(":", plugin.Weight)
		}
	}
	return text
}
