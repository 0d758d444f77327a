package policy

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// restrict changes what administrators allow, until the test ends, and waits until the API server holds pods to it.
func restrict(t *testing.T, lists map[string]string) {
	t.Helper()
	shipped, err := admin.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), names.PolicyConfigMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before, after := map[string]any{}, map[string]any{}
	for key, value := range lists {
		before[key], after[key] = nil, value
		if was, ok := shipped.Data[key]; ok {
			before[key] = was
		}
	}
	patchLists(t, after)
	t.Cleanup(func() { patchLists(t, before) })
}

// patchLists changes the lists and, with them, one that tells when the API server knows.
func patchLists(t *testing.T, data map[string]any) {
	t.Helper()
	for _, canary := range []struct{ value, want string }{{"nobody", "pool canary is not"}, {"*", ""}} {
		data["pools.canary"] = canary.value
		patch, err := json.Marshal(map[string]any{"data": data})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.CoreV1().ConfigMaps(metav1.NamespaceSystem).Patch(context.Background(), names.PolicyConfigMap,
			types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitCanary(t, canary.want)
	}
}

func awaitCanary(t *testing.T, want string) {
	t.Helper()
	controller := as(jobController)
	eventually(t, "the lists to hold", func(context.Context) bool {
		pod := plain()
		of("canary")(pod)
		_, err := controller.CoreV1().Pods("default").Create(context.Background(), pod, dryRun)
		return (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want))
	})
}

// reservedClass makes a priority class that some may use.
func reservedClass(t *testing.T) {
	t.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "reserved"}, Value: 2_000_000}
	if _, err := admin.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// toPrepare has an init container ask for the pod's GPUs.
func toPrepare(pod *corev1.Pod) {
	pod.Spec.InitContainers = []corev1.Container{*pod.Spec.Containers[0].DeepCopy()}
	pod.Spec.InitContainers[0].Name = "init"
	withoutGPUs(pod)
}

// asAWhole asks for GPUs for all containers together, which Kubernetes refuses itself: if it does no more, the policy has to see them.
func asAWhole(pod *corev1.Pod) {
	pod.Spec.Resources = pod.Spec.Containers[0].Resources.DeepCopy()
	withoutGPUs(pod)
}

func TestWhoMayUseWhat(t *testing.T) {
	mine, other := team(t, nil), team(t, nil)
	none := func(*corev1.Pod) {}
	tests := map[string]struct {
		lists  map[string]string
		change func(*corev1.Pod)
		want   string
	}{
		"a pool whose list names the namespace":               {map[string]string{"pools.gold-pool": other + "\n" + mine + "\n"}, of("gold-pool"), ""},
		"a list on one line":                                  {map[string]string{"pools.gold-pool": "  " + other + " " + mine + " "}, of("gold-pool"), ""},
		"a pool whose list names another namespace":           {map[string]string{"pools.gold-pool": other}, of("gold-pool"), "pool gold-pool is not for namespace " + mine},
		"a namespace whose name begins like one of the list":  {map[string]string{"pools.gold-pool": mine + "-2"}, of("gold-pool"), "pool gold-pool is not"},
		"a pool whose list is empty":                          {map[string]string{"pools.gold-pool": ""}, of("gold-pool"), "pool gold-pool is not"},
		"a pool for everybody":                                {map[string]string{"pools.gold-pool": "*"}, of("gold-pool"), ""},
		"a pool without a list":                               {map[string]string{"pools.gold-pool": other}, of("training-pool"), ""},
		"a pool without a list, where that is not enough":     {map[string]string{"pools": other}, of("training-pool"), "pool training-pool is not"},
		"a pool with a list, where others need one":           {map[string]string{"pools": "", "pools.gold-pool": mine}, of("gold-pool"), ""},
		"no pool, which is the pool default":                  {map[string]string{"pools.default": other}, none, "pool default is not"},
		"no pool and no GPUs":                                 {map[string]string{"pools.default": other}, withoutGPUs, ""},
		"priority high, where it is for others":               {map[string]string{"priorities.g8s-high": other}, priority("g8s-high"), "take a lower one (job.priority in gpuctl's YAML)"},
		"priority high, where it is for the namespace":        {map[string]string{"priorities.g8s-high": other + " " + mine}, priority("g8s-high"), ""},
		"priority medium, where high is for others":           {map[string]string{"priorities.g8s-high": other}, priority("g8s-medium"), ""},
		"a priority without a list, where that is not enough": {map[string]string{"priorities": other}, priority("g8s-medium"), "priority class g8s-medium is not"},
		"another scheduler":                                   {map[string]string{}, scheduledBy("volcano"), "add namespace " + mine + " to schedulers.volcano of the ConfigMap"},
		"another scheduler, for shares of GPUs":               {map[string]string{}, both(scheduledBy("volcano"), asksFor(names.ResourceSharedGPU, "1")), "set schedulerName: gpu-scheduler"},
		"another scheduler, for slices of GPUs":               {map[string]string{}, both(scheduledBy("volcano"), asksFor(names.ResourceMIGPrefix+"1g.5gb", "1")), "set schedulerName: gpu-scheduler"},
		"another scheduler, for an init container":            {map[string]string{}, both(scheduledBy("volcano"), toPrepare), "set schedulerName: gpu-scheduler"},
		"the usual scheduler of Kubernetes":                   {map[string]string{}, scheduledBy(""), "scheduler default-scheduler would give a pod GPUs that gpu-scheduler gives"},
		"another scheduler, for the pod as a whole":           {map[string]string{}, both(scheduledBy("volcano"), asAWhole), "spec.resources"},
		"another scheduler and no GPUs":                       {map[string]string{}, both(scheduledBy("volcano"), withoutGPUs), ""},
		"another scheduler and none of its GPUs":              {map[string]string{}, both(scheduledBy("volcano"), asksFor(names.ResourceGPU, "0")), ""},
		"a scheduler whose list names the namespace":          {map[string]string{"schedulers.volcano": other + " " + mine}, scheduledBy("volcano"), ""},
		"a scheduler whose list names another namespace":      {map[string]string{"schedulers.volcano": other}, scheduledBy("volcano"), "would give a pod GPUs"},
		"a scheduler for everybody":                           {map[string]string{"schedulers.volcano": "*"}, scheduledBy("volcano"), ""},
		"any scheduler for the namespace":                     {map[string]string{"schedulers": mine}, scheduledBy("volcano"), ""},
		"a scheduler, where a pool is closed":                 {map[string]string{"schedulers.volcano": "*", "pools.gold-pool": other}, scheduledBy("volcano"), "knows no pools"},
		"a scheduler, where its own pool is closed":           {map[string]string{"schedulers.volcano": "*", "pools.volcano": ""}, both(scheduledBy("volcano"), of("volcano")), ""},
		"ours, in the pool of another scheduler":              {map[string]string{"schedulers.volcano": "*", "pools.volcano": ""}, of("volcano"), "pool volcano is not for namespace"},
		"a scheduler that is for others, in its own pool":     {map[string]string{"schedulers.volcano": other, "pools.volcano": ""}, both(scheduledBy("volcano"), of("volcano")), "pool volcano is not"},
		"a scheduler, where all pools are open":               {map[string]string{"schedulers.volcano": "*", "pools.gold-pool": mine}, scheduledBy("volcano"), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			restrict(t, test.lists)
			pod := plain()
			test.change(pod)
			checkRefusal(t, makePod(t, jobController, mine, pod), test.want)
		})
	}
}
