package simulate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/gang"
)

const jobSetAndPods = `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: team}
spec: {replicatedJobs: [{name: w, replicas: 3, template: {spec: {template: {spec: {containers: [{name: m, resources: {limits: {nvidia.com/gpu: 8}}}]}}}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: waits, namespace: team, labels: {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/replicatedjob-name: w}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train-w-0, uid: u, controller: true}]}
spec: {containers: [{name: m}]}
---
apiVersion: v1
kind: Pod
metadata: {name: runs, namespace: team, labels: {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/replicatedjob-name: w}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train-w-1, uid: v, controller: true}]}
spec: {nodeName: n1, containers: [{name: m}]}
---
apiVersion: example.com/v1
kind: Other
metadata: {name: other}
`

// TestOperatorsWorkloadsAreGangsOfASimulation: their members name one PodGroup, in a cluster and in what is to be placed.
func TestOperatorsWorkloadsAreGangsOfASimulation(t *testing.T) {
	cluster, waiting, err := ParseCluster([]byte(jobSetAndPods))
	if err != nil || len(waiting) != 1 || len(cluster.Pods) != 1 || len(cluster.Groups) != 1 {
		t.Fatalf("%d wait, %d run, %d PodGroups: %v", len(waiting), len(cluster.Pods), len(cluster.Groups), err)
	}
	first, _ := gang.NamedGroup(waiting[0].Pod)
	second, _ := gang.NamedGroup(cluster.Pods[0])
	group := cluster.Groups[0]
	if first != second || first.Name != group.Name || group.Namespace != "team" || group.Spec.MinMember != 3 {
		t.Errorf("they name %s and %s, of %d members: %s", first, second, group.Spec.MinMember, group.Name)
	}

	arrivals, err := ParseWorkload("job", []byte(`{apiVersion: batch/v1, kind: Job, metadata: {name: ddp}, spec: {completionMode: Indexed, parallelism: 2, completions: 2,
  template: {spec: {containers: [{name: m, resources: {limits: {nvidia.com/gpu: 8}}}]}}}}`), Cluster{})
	if err != nil {
		t.Fatal(err)
	}
	var got []int32
	for _, arrival := range arrivals {
		if arrival.Group != nil {
			got = append(got, arrival.Group.Spec.MinMember)
		}
	}
	if diff := cmp.Diff([]int32{2, 2}, got); diff != "" {
		t.Errorf("members of the gang of each pod (-want +got):\n%s", diff)
	}
}
