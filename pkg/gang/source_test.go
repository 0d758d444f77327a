package gang

import (
	"cmp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

func memberOf(labels map[string]string, owner types.UID) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: labels}}
	if owner != "" {
		name := cmp.Or(labels[labelJobSet], labels[labelLeaderWorkerSet], "job") + "-0"
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: name, UID: owner, Controller: ptr.To(true)}}
	}
	return pod
}

// TestWhatTheObjectsOfAPodSay reads the object that says what the gang of a pod is, and asks who else is in it.
func TestWhatTheObjectsOfAPodSay(t *testing.T) {
	labelled := map[string]string{"scheduling.x-k8s.io/pod-group": "g"}
	replica := func(index string) map[string]string {
		return map[string]string{labelLeaderWorkerSet: "vllm", "leaderworkerset.sigs.k8s.io/group-index": index}
	}
	job := func(name string) map[string]string {
		return map[string]string{labelJobSet: "train", "jobset.sigs.k8s.io/replicatedjob-name": name}
	}
	whole := `spec: {replicatedJobs: [{name: a, template: {spec: {template: ` + asking + `}}}, {name: b, template: {spec: {template: ` + asking + `}}}]}`
	inOrder := `spec: {startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs: [{name: a, replicas: 2, template: {spec: {template: ` + asking + `}}}, {name: b, template: {spec: {template: ` + asking + `}}}]}`
	for name, tc := range map[string]struct {
		pod     *corev1.Pod
		kind    string // of the object that is asked, "" for none
		object  string
		least   int
		group   string // "" for no gang
		with    []*corev1.Pod
		without []*corev1.Pod
	}{
		"a PodGroup": {
			pod: memberOf(labelled, "mine"), kind: "PodGroup", object: `spec: {minMember: 3}`, least: 3, group: "g",
			with: []*corev1.Pod{memberOf(labelled, "mine")}, without: []*corev1.Pod{memberOf(labelled, "theirs"), memberOf(nil, "mine"), memberOf(job("a"), "mine")},
		},
		"a PodGroup of several owners": {
			pod: memberOf(labelled, "mine"), kind: "PodGroup", object: `{metadata: {annotations: {g8s.host/several-owners: "true"}}, spec: {minMember: 3}}`, least: 3, group: "g",
			with: []*corev1.Pod{memberOf(labelled, "theirs")}, without: []*corev1.Pod{memberOf(map[string]string{"scheduling.x-k8s.io/pod-group": "h"}, "mine")},
		},
		"a PodGroup that cannot be read":  {pod: memberOf(labelled, "mine"), kind: "PodGroup", object: `spec: {minMember: many}`},
		"a pod of a PodGroup and nobody":  {pod: memberOf(labelled, "")},
		"a pod alone":                     {pod: memberOf(nil, "mine")},
		"a replica of a LeaderWorkerSet":  {pod: memberOf(replica("1"), "mine"), kind: KindLeaderWorkerSet, object: `spec: {leaderWorkerTemplate: {size: 2, workerTemplate: ` + asking + `}}`, least: 2, group: "LeaderWorkerSet/vllm/1", with: []*corev1.Pod{memberOf(replica("1"), "theirs")}, without: []*corev1.Pod{memberOf(replica("2"), "mine")}},
		"a JobSet":                        {pod: memberOf(job("a"), "mine"), kind: KindJobSet, object: whole, least: 2, group: "JobSet/train", with: []*corev1.Pod{memberOf(job("b"), "theirs")}},
		"a job of a JobSet in order":      {pod: memberOf(job("a"), "mine"), kind: KindJobSet, object: inOrder, least: 2, group: "JobSet/train/a", with: []*corev1.Pod{memberOf(job("a"), "theirs")}, without: []*corev1.Pod{memberOf(job("b"), "mine")}},
		"one pod of a JobSet in order":    {pod: memberOf(job("b"), "mine"), kind: KindJobSet, object: inOrder},
		"a JobSet that asks for no gangs": {pod: memberOf(job("a"), "mine"), kind: KindJobSet, object: `metadata: {annotations: {g8s.host/gang: "off"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			sources := SourcesOf(tc.pod)
			if len(sources) == 0 || tc.kind == "" {
				if len(sources) > 0 || tc.kind != "" {
					t.Errorf("there are %d sources", len(sources))
				}
				return
			}
			var object map[string]any
			if err := yaml.Unmarshal([]byte(tc.object), &object); err != nil {
				t.Fatal(err)
			}
			integers(object)
			if sources[0].Kind != tc.kind {
				t.Errorf("it asks %s", sources[0].Kind)
			}
			got, ok := sources[0].Read(&unstructured.Unstructured{Object: object})
			if ok != (tc.group != "") || ok && (got.Group.Name != tc.group || got.MinMembers != tc.least) {
				t.Fatalf("got %+v, %t", got, ok)
			}
			if ok && !got.HasMember(tc.pod) {
				t.Error("it does not have the pod itself")
			}
			for i, other := range tc.with {
				if !got.HasMember(other) {
					t.Errorf("it lacks the member %d", i)
				}
				for key, value := range got.MemberLabels() {
					if other.Labels[key] != value {
						t.Errorf("member %d is not listed by %s", i, key)
					}
				}
			}
			if _, recognized := Recognize(tc.pod); recognized && ok {
				done := tc.pod.DeepCopy()
				if done.Status.Phase = corev1.PodSucceeded; got.HasMember(done) {
					t.Error("it has one that has succeeded, and needs one less for that already")
				}
			}
			for i, other := range tc.without {
				if got.HasMember(other) {
					t.Errorf("it has the stranger %d", i)
				}
			}
		})
	}
}
