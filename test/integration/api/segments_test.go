package api

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/server"
)

// TestWhereSegmentsLie is told to callers who may see nodes: of the one that runs, and of the one that waits.
func TestWhereSegmentsLie(t *testing.T) {
	a := start(t, server.Options{})
	rack := func(value string) {
		patch := []byte(`{"metadata":{"labels":{"g8s.host/rack":` + value + `}}}`)
		if _, err := client.CoreV1().Nodes().Patch(t.Context(), "node-1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	rack(`"r1"`)
	defer rack("null")
	a.create("divided", `kind: training
job: {name: divided, namespace: team}
environment: {image: busybox, command: ["sleep", "60"]}
resources: {pool: train, nodes: 2, gpu: 1, cpu: 1, memory: 1Gi, topology: {level: rack, mode: required, segment: 1}}
`)
	var first *corev1.Pod
	a.eventually("the first pod of the job", func() bool {
		pods, err := client.CoreV1().Pods(team).List(t.Context(), metav1.ListOptions{LabelSelector: "g8s.host/job=divided,batch.kubernetes.io/job-completion-index=0"})
		if err != nil || len(pods.Items) != 1 {
			return false
		}
		first = &pods.Items[0]
		return true
	})
	a.bind(first, "node-1")
	want := []any{
		map[string]any{"first": 0.0, "last": 0.0, "domains": []any{"r1"}},
		map[string]any{"first": 1.0, "last": 1.0},
	}
	for _, path := range []string{jobs + "/divided", jobs + "/divided/explain"} {
		told := func(user string) any {
			return a.want(http.StatusOK, request{path: path + "?namespace=team", user: user})["segments"]
		}
		a.eventually("the place of the first segment", func() bool {
			segments, _ := told(member).([]any)
			if len(segments) == 0 {
				return false
			}
			one, _ := segments[0].(map[string]any)
			return one["domains"] != nil
		})
		a.same(path+" of who may see nodes", want, told(member))
		a.same(path+" of who may not", nil, told(reader))
	}
}
