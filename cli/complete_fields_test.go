package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/workload"
)

func TestFieldsAreCompleted(t *testing.T) {
	const closed, goesOn = cobra.ShellCompDirectiveNoFileComp, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	sets := completeAssignments("", workload.KindTraining)
	tests := map[string]struct {
		complete  completer
		typed     string
		want      string
		directive cobra.ShellCompDirective
	}{
		"a kind":                        {completeFields, "infer", "inference", closed},
		"a section, of any kind":        {completeFields, "resou", "resources.", goesOn},
		"a section and a kind":          {completeFields, "re", "resources. reservation", closed},
		"a field of a kind":             {completeFields, "training.resources.gpu-", "training.resources.gpu-type training.resources.gpu-share", closed},
		"a field of the kinds with it":  {completeFields, "service.autoscaling.m", "service.autoscaling.min service.autoscaling.max", closed},
		"nothing of that name":          {completeFields, "training.nothing.", "", closed},
		"a field to set":                {sets, "resources.gpu", "resources.gpu-share= resources.gpu-type= resources.gpu=", goesOn},
		"its value, of some words":      {sets, "job.priority=m", "job.priority=medium", closed},
		"its value, of any":             {sets, "resources.gpu=", "", closed},
		"no field of another kind":      {sets, "service.", "", goesOn},
		"a field of resources, alone":   {completeAssignments(sectionResources, workload.KindTraining), "topology.m", "topology.mode=", goesOn},
		"and the words that it may be":  {completeAssignments(sectionResources, workload.KindTraining), "topology.mode=", "topology.mode=preferred topology.mode=required", closed},
		"no field of another section":   {completeAssignments(sectionResources, workload.KindTraining), "job.", "", goesOn},
		"one of a list cannot be set":   {sets, "storage.workdirs", "", goesOn},
		"what is no field of a section": {sets, "kin", "", goesOn},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, directive := tc.complete(nil, nil, tc.typed)
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" || directive != tc.directive {
				t.Errorf("directive %d, want %d (-want +got):\n%s", directive, tc.directive, diff)
			}
		})
	}
}
