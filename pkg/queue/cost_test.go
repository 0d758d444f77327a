package queue

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// TestManyBeyondTheirQuota: a namespace may have thousands of jobs waiting for its quota, and everybody who asks for the line pays for them.
// They cost no more than twice what they do without the quota: each of those that leave has one tried, and not all. Tries show in what is
// allocated, whatever else the machine does.
func TestManyBeyondTheirQuota(t *testing.T) {
	const running, waiting = 200, 400
	objects := &snapshot.Snapshot{}
	for i := range running {
		name := fmt.Sprint("r", i)
		if i%8 == 0 {
			objects.Nodes = append(objects.Nodes, node(fmt.Sprint("n", i/8), "8"))
		}
		objects.Jobs = append(objects.Jobs, limited(name, time.Duration(i+1)*time.Minute))
		objects.Pods = append(objects.Pods, on(fmt.Sprint("n", i/8), asks(name, "1", 5, 0)))
	}
	for i := range waiting {
		pod := asks(fmt.Sprint("w", i), "1", 5, 0)
		if i%2 == 0 { // whoever waits writes what types they like
			pod.Annotations = map[string]string{names.AnnotationGPUTypes: fmt.Sprintf("A100,type-%d", i)}
		}
		objects.Pods = append(objects.Pods, pod)
	}
	for i := range objects.Pods {
		objects.Pods[i].UID = types.UID(objects.Pods[i].Name)
	}
	cost := func(quotas ...names.GPUQuota) float64 {
		objects.GPUQuotas = quotas
		return testing.AllocsPerRun(1, func() {
			if line := Build(objects, nil, nil, t0); len(line.Entries) != waiting || line.Entries[running-1].ETA == nil || line.Entries[running].ETA != nil {
				t.Fatalf("of %d jobs in line want as many to start as end", len(line.Entries))
			}
		})
	}
	without, with := cost(), cost(names.GPUQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "share"}, Spec: names.GPUQuotaSpec{Namespaces: []string{"team"}, Pool: "train", Max: ptr.To[int64](running)},
	})
	if t.Logf("allocations without the quota %.0f, with it %.0f", without, with); with > 2*without {
		t.Errorf("%.0f allocations, want at most twice the %.0f without the quota", with, without)
	}
}
