package gang

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// asking is a template of pods with 8 GPUs, idle one of pods without.
const (
	asking = `{spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}}}]}}`
	idle   = `{spec: {containers: [{name: main, resources: {limits: {cpu: 1}}}]}}`
)

func TestSizesOfObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, object string
		want         Sizes
	}{
		"PodGroup of Kubernetes": {KindPodGroup, `spec: {schedulingPolicy: {gang: {minCount: 4}}}`, Sizes{Whole: 4}},
		"PodGroup, basic":        {KindPodGroup, `spec: {schedulingPolicy: {basic: {}}}`, Sizes{}},
		"PodGroup, basic, together": {KindPodGroup, `spec: {schedulingPolicy: {basic: {}}, schedulingConstraints: {topology: [{key: example.com/rack}]}}`,
			Sizes{Whole: 1, Topology: "required=example.com/rack"}},
		"PodGroup, a gang in one zone": {KindPodGroup, `spec: {schedulingPolicy: {gang: {minCount: 4}}, schedulingConstraints: {topology: [{key: topology.kubernetes.io/zone}]}}`,
			Sizes{Whole: 4, Topology: "required=topology.kubernetes.io/zone"}},

		"LeaderWorkerSet":                        {KindLeaderWorkerSet, `spec: {replicas: 2, leaderWorkerTemplate: {size: 4, workerTemplate: ASKS}}`, Sizes{Each: 4}},
		"LeaderWorkerSet, only the leader asks":  {KindLeaderWorkerSet, `spec: {leaderWorkerTemplate: {size: 4, leaderTemplate: ASKS, workerTemplate: IDLE}}`, Sizes{Each: 4}},
		"LeaderWorkerSet without GPUs":           {KindLeaderWorkerSet, `spec: {leaderWorkerTemplate: {size: 4, workerTemplate: IDLE}}`, Sizes{}},
		"LeaderWorkerSet of one":                 {KindLeaderWorkerSet, `spec: {leaderWorkerTemplate: {size: 1, workerTemplate: ASKS}}`, Sizes{}},
		"LeaderWorkerSet, workers come later":    {KindLeaderWorkerSet, `spec: {startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 4, workerTemplate: ASKS}}`, Sizes{}},
		"LeaderWorkerSet, workers come to racks": {KindLeaderWorkerSet, `{metadata: {annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}}, spec: {leaderWorkerTemplate: {size: 4, workerTemplate: ASKS}}}`, Sizes{}},

		"JobSet": {KindJobSet, `spec: {replicatedJobs: [{name: driver, template: {spec: {template: IDLE}}}, {name: workers, replicas: 2, template: {spec: {parallelism: 3, completions: 3, template: ASKS}}}]}`,
			Sizes{Whole: 7}},
		"JobSet, more pods at a time than it takes": {KindJobSet, `spec: {replicatedJobs: [{name: a, template: {spec: {parallelism: 8, completions: 3, template: ASKS}}}]}`, Sizes{Whole: 3}},
		"JobSet without GPUs":                       {KindJobSet, `spec: {replicatedJobs: [{name: a, replicas: 4, template: {spec: {template: IDLE}}}]}`, Sizes{}},
		"JobSet of one pod":                         {KindJobSet, `spec: {replicatedJobs: [{name: a, template: {spec: {template: ASKS}}}]}`, Sizes{}},
		"JobSet, in order": {KindJobSet, `spec: {startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs: [{name: first, template: {spec: {template: ASKS}}}, {name: workers, replicas: 4, template: {spec: {template: ASKS}}}, {name: cpu, replicas: 4, template: {spec: {template: IDLE}}}]}`,
			Sizes{Parts: map[string]int{"workers": 4}}},
		"JobSet, one job after another": {KindJobSet, `spec: {replicatedJobs: [{name: data, template: {spec: {template: IDLE}}}, {name: node, dependsOn: [{name: data, status: Complete}], template: {spec: {parallelism: 4, completions: 4, template: ASKS}}}]}`,
			Sizes{Parts: map[string]int{"node": 4}}},
		"JobSet, one of its jobs has succeeded": {KindJobSet, `{spec: {replicatedJobs: [{name: a, replicas: 3, template: {spec: {parallelism: 2, template: ASKS}}}]}, status: {replicatedJobsStatus: [{name: a, succeeded: 1}]}}`, Sizes{Whole: 4}},
		"JobSet, a rack for each job":           {KindJobSet, `{metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}, spec: {replicatedJobs: [{name: a, replicas: 3, template: {spec: {template: ASKS}}}]}}`, Sizes{}},
		"JobSet, a rack for each of one job": {KindJobSet, `spec: {replicatedJobs: [{name: a, replicas: 3, template: {metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}, spec: {template: ASKS}}}]}`,
			Sizes{}},

		"RayCluster": {KindRayCluster, `spec: {headGroupSpec: {template: IDLE}, workerGroupSpecs: [{replicas: 2, minReplicas: 1, maxReplicas: 4, template: ASKS}]}`, Sizes{Whole: 3}},
		"RayCluster that scales by itself": {KindRayCluster, `spec: {enableInTreeAutoscaling: true, headGroupSpec: {template: IDLE}, workerGroupSpecs: [{replicas: 5, minReplicas: 1, maxReplicas: 8, template: ASKS}]}`,
			Sizes{Whole: 2}},
		"RayCluster of groups": {KindRayCluster, `spec: {headGroupSpec: {template: IDLE}, workerGroupSpecs: [{replicas: 2, numOfHosts: 4, template: ASKS}, {replicas: 9, suspend: true, template: ASKS}, {replicas: 9, maxReplicas: 2, template: ASKS}, {minReplicas: 3, replicas: 1, template: ASKS}]}`,
			Sizes{Whole: 1 + 8 + 2 + 3}},
		"RayCluster without GPUs":      {KindRayCluster, `spec: {headGroupSpec: {template: IDLE}, workerGroupSpecs: [{replicas: 2, template: IDLE}]}`, Sizes{}},
		"RayCluster of a head":         {KindRayCluster, `spec: {headGroupSpec: {template: ASKS}}`, Sizes{}},
		"RayCluster with its topology": {KindRayCluster, `{metadata: {annotations: {g8s.host/topology: required=rack}}, spec: {headGroupSpec: {template: IDLE}, workerGroupSpecs: [{replicas: 2, template: ASKS}]}}`, Sizes{Whole: 3, Topology: "required=rack"}},
		"RayCluster that wants none":   {KindRayCluster, `{metadata: {annotations: {g8s.host/gang: "off"}}, spec: {headGroupSpec: {template: IDLE}, workerGroupSpecs: [{replicas: 2, template: ASKS}]}}`, Sizes{}},

		"PyTorchJob":                         {"PyTorchJob", `spec: {pytorchReplicaSpecs: {Master: {template: ASKS}, Worker: {replicas: 3, template: ASKS}}}`, Sizes{Whole: 4}},
		"PyTorchJob, elastic":                {"PyTorchJob", `spec: {elasticPolicy: {minReplicas: 2}, pytorchReplicaSpecs: {Worker: {replicas: 5, template: ASKS}}}`, Sizes{Whole: 2}},
		"PyTorchJob, fewer are enough":       {"PyTorchJob", `spec: {runPolicy: {schedulingPolicy: {minAvailable: 2}}, pytorchReplicaSpecs: {Worker: {replicas: 5, template: ASKS}}}`, Sizes{Whole: 2}},
		"PyTorchJob, more than all":          {"PyTorchJob", `spec: {runPolicy: {schedulingPolicy: {minAvailable: 9}}, pytorchReplicaSpecs: {Worker: {replicas: 5, template: ASKS}}}`, Sizes{Whole: 5}},
		"PyTorchJob, a worker has succeeded": {"PyTorchJob", `{spec: {pytorchReplicaSpecs: {Master: {template: ASKS}, Worker: {replicas: 3, template: ASKS}}}, status: {replicaStatuses: {Worker: {succeeded: 1}}}}`, Sizes{Whole: 3}},
		"PyTorchJob without GPUs":            {"PyTorchJob", `spec: {pytorchReplicaSpecs: {Master: {template: IDLE}, Worker: {replicas: 3, template: IDLE}}}`, Sizes{}},
		"MPIJob":                             {KindMPIJob, `spec: {mpiReplicaSpecs: {Launcher: {template: IDLE}, Worker: {replicas: 4, template: ASKS}}}`, Sizes{Whole: 5}},
		"MPIJob, its launcher comes later":   {KindMPIJob, `spec: {launcherCreationPolicy: WaitForWorkersReady, mpiReplicaSpecs: {Launcher: {template: IDLE}, Worker: {replicas: 4, template: ASKS}}}`, Sizes{Whole: 4}},

		"Job":                           {KindJob, `spec: {completionMode: Indexed, parallelism: 4, completions: 4, template: ASKS}`, Sizes{Whole: 4}},
		"Job, one has succeeded":        {KindJob, `{spec: {completionMode: Indexed, parallelism: 4, completions: 4, template: ASKS}, status: {succeeded: 1}}`, Sizes{Whole: 3}},
		"Job, some at a time":           {KindJob, `spec: {completionMode: Indexed, parallelism: 4, completions: 40, template: ASKS}`, Sizes{}},
		"Job without indexes":           {KindJob, `spec: {parallelism: 4, completions: 4, template: ASKS}`, Sizes{}},
		"Job, each index for itself":    {KindJob, `spec: {completionMode: Indexed, backoffLimitPerIndex: 1, parallelism: 4, completions: 4, template: ASKS}`, Sizes{}},
		"Job without GPUs":              {KindJob, `spec: {completionMode: Indexed, parallelism: 4, completions: 4, template: IDLE}`, Sizes{}},
		"Job of slices":                 {KindJob, `spec: {completionMode: Indexed, parallelism: 4, completions: 4, template: {spec: {containers: [{name: a, resources: {limits: {nvidia.com/mig-1g.10gb: 1}}}]}}}`, Sizes{Whole: 4}},
		"Job of devices by claims":      {KindJob, `spec: {completionMode: Indexed, parallelism: 4, completions: 4, template: {spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}], containers: [{name: a}]}}}`, Sizes{Whole: 4}},
		"Job of more than there can be": {KindJob, `spec: {completionMode: Indexed, parallelism: 2000000000, completions: 2000000000, template: ASKS}`, Sizes{Whole: maxPods}},

		"an empty object":       {KindJobSet, `{}`, Sizes{}},
		"fields of other types": {KindJobSet, `spec: {replicatedJobs: [7, {name: a, replicas: x, template: []}, {name: 3, template: {spec: {parallelism: {}, template: ASKS}}}]}`, Sizes{Whole: 2}},
		"a spec that is a list": {KindRayCluster, `spec: []`, Sizes{}},
		"fewer than none":       {KindJobSet, `spec: {replicatedJobs: [{name: a, replicas: -4, template: {spec: {parallelism: -4, template: ASKS}}}]}`, Sizes{}},
	} {
		t.Run(name, func(t *testing.T) {
			var object map[string]any
			text := strings.NewReplacer("ASKS", asking, "IDLE", idle).Replace(tc.object)
			if err := yaml.Unmarshal([]byte(text), &object); err != nil {
				t.Fatal(err)
			}
			integers(object)
			for _, kind := range Kinds() {
				if kind.Name != tc.kind {
					continue
				}
				if diff := cmp.Diff(tc.want, kind.Read(&unstructured.Unstructured{Object: object})); diff != "" {
					t.Errorf("%s (-want +got):\n%s", kind.Resource, diff)
				}
			}
		})
	}
}

// integers makes the whole numbers of a document what they are in an object that was read from an API server.
func integers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = integers(value[key])
		}
	case []any:
		for i := range value {
			value[i] = integers(value[i])
		}
	case float64:
		return int64(value)
	}
	return value
}

func TestSizesOfParts(t *testing.T) {
	for name, tc := range map[string]struct {
		sizes Sizes
		part  string
		want  int
	}{
		"all pods":                      {Sizes{Whole: 4}, "", 4},
		"a part of what starts whole":   {Sizes{Whole: 4}, "workers", 0},
		"a part":                        {Sizes{Parts: map[string]int{"workers": 3}}, "workers", 3},
		"another part":                  {Sizes{Parts: map[string]int{"workers": 3}}, "driver", 0},
		"all pods of what has parts":    {Sizes{Parts: map[string]int{"workers": 3}}, "", 0},
		"any replica":                   {Sizes{Each: 2}, "17", 2},
		"all pods of what has replicas": {Sizes{Each: 2}, "", 0},
	} {
		if got := tc.sizes.SizeOf(tc.part); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}
