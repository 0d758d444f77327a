package render

import (
	"slices"
	"testing"

	"g8s.host/gpu-scheduler/pkg/workload"
)

func TestBecomes(t *testing.T) {
	cases := map[string]struct {
		kind workload.Kind
		path string
		want string
	}{
		"a field of the Job":          {workload.KindTraining, "job.retries", "Job spec.backoffLimit"},
		"a selector":                  {workload.KindTraining, "resources.gpu-type", "Job spec.template.spec.nodeSelector[g8s.host/gpu-type]"},
		"an annotation":               {workload.KindTraining, "resources.gpu-share", "Job spec.template.metadata.annotations[g8s.host/gpu-share]"},
		"an object of its own":        {workload.KindInference, "service.autoscaling.max", "HorizontalPodAutoscaler spec.maxReplicas"},
		"a gang":                      {workload.KindTraining, "resources.nodes", "PodGroup spec.minMember"},
		"a required one, which moves": {workload.KindInference, "job.name", "Service metadata.name"},
		"a bound of a quota":          {workload.KindQuota, "default.gpu", "ResourceQuota spec.hard[requests.nvidia.com/gpu]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := FieldPlaces(tc.kind, tc.path)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(got, tc.want) {
				t.Errorf("got %q, want %q among them", got, tc.want)
			}
		})
	}
	if _, err := FieldPlaces(workload.KindTraining, "resources.gpus"); err == nil {
		t.Error("a field that does not exist becomes something")
	}
}
