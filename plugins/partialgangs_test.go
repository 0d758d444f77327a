package plugins_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/coscheduling"
	"g8s.host/gpu-scheduler/test/upstream"
)

// TestANewLeaderCompletesHalvesFirst in the real queue of a process that stood by while the leader before it began a gang: the members that
// wait come before all of their priority, also before those that were there earlier, and before gangs that have no place yet. Pods of higher
// priority come before them as ever.
func TestANewLeaderCompletesHalvesFirst(t *testing.T) {
	c := newCluster(t, gpuNode("a", "pcie"))
	plugins.Wrap(c.scheduler, plugins.Options{})
	line, factory := c.scheduler.SchedulingQueue, c.scheduler.Profiles[names.SchedulerName].SharedInformerFactory()
	now := time.Now()
	var groups []*gangsv1.PodGroup
	for i, name := range []string{"older", "half"} {
		groups = append(groups, &gangsv1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.NewTime(now.Add(time.Duration(i+1) * time.Minute))},
			Spec:       gangsv1.PodGroupSpec{MinMember: 3},
		})
	}
	if err := coscheduling.RegisterGroups(factory, groups); err != nil {
		t.Fatal(err)
	}
	upstream.Add(line, c.known(pod("single", "1", "1"), ""))
	members := map[string][]*corev1.Pod{}
	for _, group := range groups {
		for i := range 3 {
			wrapped := pod(fmt.Sprint(group.Name, "-", i), "1", "8").Label(names.LabelPodGroup, group.Name).CreationTimestamp(group.CreationTimestamp)
			members[group.Name] = append(members[group.Name], c.known(wrapped, ""))
		}
		upstream.Add(line, members[group.Name]...)
	}
	upstream.Add(line, c.known(pod("higher", "1", "1").Priority(1), ""))

	// The leader binds one of the last gang, and dies.
	upstream.Delete(line, members["half"][0])
	c.known(pod("half-0", "1", "8").Label(names.LabelPodGroup, "half"), "a")

	var got []string
	for range 4 {
		got = append(got, upstream.Take(t, c.scheduler.NextEntity).Pod().Name)
	}
	if want := []string{"higher", "half-1", "half-2", "single"}; !slices.Equal(got, want) {
		t.Errorf("they are tried in the order %s, want %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}
