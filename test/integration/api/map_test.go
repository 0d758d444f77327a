package api

import (
	"context"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/server"
	"g8s.host/gpu-scheduler/test/fixture"
)

const mapPath = "/api/v1/map"

// mapNode is a node of these tests alone.
const mapNode = "mapped"

// makeMapped makes a node with three GPUs, the first two of which are held: by a pod of the team, and by one of another namespace.
func (a *api) makeMapped() {
	a.Helper()
	cards := fixture.Cards(mapNode, 81920, 81920, 81920)
	node := fixture.Node(mapNode).Pool("maps").GPUs(3, "A100-80G").Annotate(names.AnnotationInventory, cards.Annotation(a.T)).Obj()
	if _, err := client.CoreV1().Nodes().Create(a.Context(), node, metav1.CreateOptions{}); err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() {
		if err := client.CoreV1().Nodes().Delete(context.WithoutCancel(a.Context()), mapNode, metav1.DeleteOptions{}); err != nil {
			a.Error(err)
		}
	})
	a.makeHolder(team, 0)
	a.makeHolder(other, 1)
}

// makeHolder makes a pod, named after its namespace, that holds a GPU of the node. The returned function deletes it.
func (a *api) makeHolder(namespace string, card int) (remove func()) {
	a.Helper()
	text, err := gpu.Assignment{"main": {{UUID: fixture.UUID(mapNode, card), Index: card}}}.Encode()
	if err != nil {
		a.Fatal(err)
	}
	pod := fixture.Pod("holder-of-"+namespace).GPUs(1).Annotate(names.AnnotationGPUDevices, text).Obj()
	pod.Spec.NodeName = mapNode
	if _, err := client.CoreV1().Pods(namespace).Create(a.Context(), pod, metav1.CreateOptions{}); err != nil {
		a.Fatal(err)
	}
	remove = func() {
		_ = client.CoreV1().Pods(namespace).Delete(context.WithoutCancel(a.Context()), pod.Name, *metav1.NewDeleteOptions(0)) // it may be gone
	}
	a.Cleanup(remove)
	return remove
}

// column is what a map says of the node in a column, nil if it does not have the node.
func column(answer map[string]any, name string) any {
	nodes, _ := answer["nodes"].([]any)
	values, _ := answer[name].([]any)
	if row := slices.Index(nodes, any(mapNode)); row >= 0 && row < len(values) {
		return values[row]
	}
	return nil
}

// TestMapHidesTheHoldersOfOthers from all who may not list pods there, and everything from those who may not list nodes.
func TestMapHidesTheHoldersOfOthers(t *testing.T) {
	a := start(t, server.Options{})
	a.makeMapped()
	one := request{path: mapPath + "?node=" + mapNode, user: admin}
	a.eventually("both holders on the map", func() bool { return column(a.want(http.StatusOK, one), "gpus") == "uuf" })
	for user, want := range map[string]struct{ jobs, held []any }{
		admin:  {jobs: []any{"holder-of-team", "holder-of-other"}, held: []any{0.0, 1.0, 1.0, 1.0, -1.0, 1.0}},
		member: {jobs: []any{"holder-of-team"}, held: []any{0.0, 1.0, -1.0, 2.0}},
	} {
		answer := a.want(http.StatusOK, request{path: one.path, user: user})
		a.same("the nodes", []any{mapNode}, answer["nodes"])
		a.same("the holders that "+user+" sees", want.jobs, answer["holderJob"])
		a.same("what they hold", any(want.held), column(answer, "held"))
		a.same("what is free", 1.0, column(answer, "free"))
	}
	for _, path := range []string{mapPath, mapPath + "?watch=true"} {
		for _, user := range []string{nobody, reader} {
			a.want(http.StatusForbidden, request{path: path, user: user})
		}
		a.want(http.StatusUnauthorized, request{path: path})
	}
	packed := a.do(request{path: mapPath, user: admin, header: map[string]string{"Accept-Encoding": "gzip"}})
	a.same("a packed map", "gzip", packed.header.Get("Content-Encoding"))
}

// TestMapIsWatched sends the whole map once, and then the node alone that has changed.
func TestMapIsWatched(t *testing.T) {
	a := start(t, server.Options{})
	a.makeMapped()
	one := request{path: mapPath + "?node=" + mapNode, user: admin}
	a.eventually("both holders on the map", func() bool { return column(a.want(http.StatusOK, one), "gpus") == "uuf" })
	changes := a.events(t.Context(), request{path: mapPath + "?watch=true", user: member})
	first := a.until(changes, "map", "")
	a.same("the GPUs at first", "uuf", column(first.data, "gpus"))
	if nodes, _ := first.data["nodes"].([]any); len(nodes) < 4 {
		t.Errorf("the first map has %v", nodes)
	}
	remove := a.makeHolder("users", 2)
	then := a.until(changes, "rows", "")
	a.same("the nodes that changed", []any{mapNode}, then.data["nodes"])
	a.same("their GPUs", "uuu", column(then.data, "gpus"))
	remove()
	a.same("the GPUs in the end", "uuf", column(a.until(changes, "rows", "").data, "gpus"))
}
