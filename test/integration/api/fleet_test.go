package api

import (
	"maps"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/server"
)

// TestNodesHaveTheirGPUs has real numbers, where the first gpuctl had zeros or 500.
func TestNodesHaveTheirGPUs(t *testing.T) {
	a := start(t, server.Options{})
	list := a.want(http.StatusOK, request{path: "/api/v1/nodes?pool=train&pageSize=1", user: member})
	a.same("how many there are", 2.0, list["total"])
	items, _ := list["items"].([]any)
	first, _ := items[0].(map[string]any)
	a.same("the first", map[string]any{"nodeName": "node-1", "status": "active", "gpuTotal": 8.0, "gpuFree": 8.0,
		"gpuType": "A100-80G", "cpu": "128", "memory": "1Ti", "boundPools": []any{"train"}},
		only(first, "nodeName", "status", "gpuTotal", "gpuFree", "gpuType", "cpu", "memory", "boundPools"))
	next, _ := list["continue"].(string)
	rest := a.want(http.StatusOK, request{path: "/api/v1/nodes?pool=train&limit=10&continue=" + next, user: member})
	if items, _ := rest["items"].([]any); len(items) != 1 || rest["continue"] != nil {
		t.Errorf("the second page is %v", rest)
	}
	detail := a.want(http.StatusOK, request{path: "/api/v1/nodes/gpu-detail", user: member})
	a.same("gpu-detail is no node", 3.0, detail["total"])
}

// TestLabelsWithASlash are reached by both spellings of the key.
func TestLabelsWithASlash(t *testing.T) {
	a := start(t, server.Options{})
	const labels = "/api/v1/nodes/node-3/labels"
	const key = "example.com/rack"
	added := a.want(http.StatusOK, request{method: http.MethodPost, path: labels, user: admin, body: map[string]any{"key": key, "value": "r1"}})
	a.same("added", map[string]any{"nodeName": "node-3", "label": map[string]any{key: "r1"}, "message": "标签添加成功"}, added)
	taken := a.want(http.StatusConflict, request{method: http.MethodPost, path: labels, user: admin, body: map[string]any{"key": key, "value": "r2"}})
	a.same("a second value", "LabelConflict", taken["code"])
	a.want(http.StatusOK, request{method: http.MethodPost, path: labels, user: admin, body: map[string]any{"key": key, "value": "r2", "overwrite": true}})
	got := a.want(http.StatusOK, request{path: labels + "/example.com%2Frack", user: member})
	label, _ := got["label"].(map[string]any)
	a.same("the label", "r2", label["value"])
	updated := a.want(http.StatusOK, request{method: http.MethodPut, path: labels + "/example.com%2Frack", user: admin, body: map[string]any{"value": "r3"}})
	a.same("updated", map[string]any{"node": "node-3", "label": key + "=r3", "message": "标签更新成功"}, updated)
	a.want(http.StatusOK, request{method: http.MethodPut, path: labels + "?key=" + key, user: admin, body: map[string]any{"value": "r4"}})
	all := a.want(http.StatusOK, request{path: "/api/v1/labels", user: member})
	a.same("all values", []any{"r4"}, all[key])
	removed := a.want(http.StatusOK, request{method: http.MethodDelete, path: labels + "?key=" + key, user: admin})
	a.same("removed", map[string]any{"node": "node-3", "label": key, "message": "标签删除成功"}, removed)
	a.want(http.StatusNotFound, request{method: http.MethodDelete, path: labels + "/example.com%2Frack", user: admin})
	a.want(http.StatusUnprocessableEntity, request{method: http.MethodPost, path: labels, user: admin,
		body: map[string]any{"key": "kubernetes.io/os", "value": "plan9", "overwrite": true}})
}

// aGPUTypeIsNotChangedWithoutAWord of who makes a pool; PUT changes it, and says so.
func (a *api) aGPUTypeIsNotChangedWithoutAWord(pools string) {
	a.Helper()
	body := map[string]any{"name": "infer", "nodes": []string{"node-3"}, "gpuType": []string{"L40S"}, "force": true}
	refused := a.want(http.StatusConflict, request{method: http.MethodPost, path: pools, user: admin, body: body})
	a.same("another type", map[string]any{"code": "LabelConflict", "error": "node node-3 has g8s.host/gpu-type=L4"}, only(refused, "code", "error"))
	body["overwrite"] = true
	retyped := []any{map[string]any{"node": "node-3", "gpuType": "L40S", "was": "L4"}}
	a.same("with a word", retyped, a.want(http.StatusCreated, request{method: http.MethodPost, path: pools, user: admin, body: body})["retyped"])
	back := a.want(http.StatusOK, request{method: http.MethodPut, path: pools + "/infer", user: admin,
		body: map[string]any{"nodes": []string{"node-3"}, "gpuType": []string{"L4"}, "description": "serving"}})
	a.same("by PUT", []any{map[string]any{"node": "node-3", "gpuType": "L4", "was": "L40S"}}, back["retyped"])
}

// TestAPoolIsItsNodes creates, changes and deletes one, and takes nothing from others by accident.
func TestAPoolIsItsNodes(t *testing.T) {
	a := start(t, server.Options{})
	const pools = "/api/v1/pools"
	body := map[string]any{"name": "infer", "description": "serving", "nodes": []string{"node-3"}, "gpuType": []string{"L4"}}
	created := a.want(http.StatusCreated, request{method: http.MethodPost, path: pools, user: admin, body: body})
	a.same("created", map[string]any{"name": "infer", "status": "created", "message": "资源池创建成功"}, only(created, "name", "status", "message"))
	pool := a.want(http.StatusOK, request{path: pools + "/infer", user: member})
	a.same("the pool", map[string]any{"nodes": []any{"node-3"}, "gpuTotal": 4.0, "description": "serving", "gpuType": []any{"L4"}},
		only(pool, "nodes", "gpuTotal", "description", "gpuType"))
	cpu, _ := pool["cpu"].(map[string]any)
	use, _ := pool["use"].(map[string]any)
	if cpu["allocatable"] == nil || cpu["requested"] == nil || use["unmeasured"] != "the cluster has no metrics-server (metrics.k8s.io)" {
		t.Errorf("the pool's CPU is %v, and in use is %v", cpu, use)
	}
	again := a.want(http.StatusConflict, request{method: http.MethodPost, path: pools, user: admin, body: body})
	a.same("created again", map[string]any{"code": "AlreadyExists", "error": `pool "infer" already exists, with 1 node`}, only(again, "code", "error"))
	a.aGPUTypeIsNotChangedWithoutAWord(pools)
	stolen := a.want(http.StatusConflict, request{method: http.MethodPut, path: pools + "/infer", user: admin,
		body: map[string]any{"nodes": []string{"node-3", "node-1"}}})
	a.same("a node of another pool", "NodesInOtherPools", stolen["code"])
	a.want(http.StatusConflict, request{method: http.MethodDelete, path: "/api/v1/nodes/node-3/pools/train", user: admin})
	a.want(http.StatusNotFound, request{method: http.MethodPost, path: pools, user: admin, body: map[string]any{"name": "x", "nodes": []string{"node-9"}}})
	deleted := a.want(http.StatusOK, request{method: http.MethodDelete, path: pools + "/infer", user: admin})
	a.same("deleted", map[string]any{"name": "infer", "status": "deleted", "message": "资源池删除成功"}, only(deleted, "name", "status", "message"))
	a.want(http.StatusNotFound, request{path: pools + "/infer", user: member})
}

// TestAPoolAsksSomethingOfItsNodes: what it asks is written, shown and kept, and a node that breaks it is refused with what
// and by how much.
func TestAPoolAsksSomethingOfItsNodes(t *testing.T) {
	a := start(t, server.Options{})
	const pools = "/api/v1/pools"
	body := map[string]any{"name": "asks", "nodes": []string{"node-3"}, "constraints": map[string]any{"minGpus": 8, "gpuTypes": []string{"H20"}}}
	refused := a.want(http.StatusConflict, request{method: http.MethodPost, path: pools, user: admin, body: body})
	a.same("code", "PoolConstraints", refused["code"])
	a.same("details", []any{
		map[string]any{"location": "nodes.node-3.gpuTypes", "message": "its gpu-type is L4, and must be one of H20"},
		map[string]any{"location": "nodes.node-3.minNode.gpus", "message": "it offers 4 GPUs, and must offer 8"},
	}, refused["details"])
	a.want(http.StatusNotFound, request{path: pools + "/asks", user: member})

	body["constraints"] = map[string]any{"minGpus": 4, "minMemory": "lots"}
	a.want(http.StatusUnprocessableEntity, request{method: http.MethodPost, path: pools, user: admin, body: body})
	body["constraints"] = map[string]any{"minGpus": 4}
	a.want(http.StatusCreated, request{method: http.MethodPost, path: pools, user: admin, body: body})
	// The watch of GPUPools is one of its own, and may be a moment later than that of nodes.
	a.eventually("the constraints to be shown", func() bool {
		got := a.want(http.StatusOK, request{path: pools + "/asks", user: member})
		declared, _ := got["gpuPool"].(map[string]any)
		constraints, _ := declared["constraints"].(map[string]any)
		return constraints["minGpus"] == 4.0
	})
	a.want(http.StatusOK, request{method: http.MethodPut, path: pools + "/asks", user: admin, body: map[string]any{"nodes": []string{"node-3"}, "description": "d"}})
	again := a.want(http.StatusOK, request{path: pools + "/asks", user: member})
	declared, _ := again["gpuPool"].(map[string]any)
	a.same("constraints of which nothing was said", map[string]any{"minGpus": 4.0}, declared["constraints"])
	a.whoMayUse("asks")
	a.want(http.StatusOK, request{method: http.MethodDelete, path: pools + "/asks", user: admin})
	a.eventually("the pool to be gone", func() bool {
		return a.do(request{path: pools + "/asks", user: member}).status == http.StatusNotFound
	})
}

// whoMayUse changes who may use a pool that asks for 4 GPUs a node, and what it asks: neither takes the other away.
func (a *api) whoMayUse(name string) {
	a.Helper()
	path := "/api/v1/pools/" + name
	put := func(status int, change map[string]any) {
		a.Helper()
		body := map[string]any{"nodes": []string{"node-3"}}
		maps.Copy(body, change)
		a.want(status, request{method: http.MethodPut, path: path, user: admin, body: body})
	}
	shows := func(what string, constraints, access any) {
		a.Helper()
		a.eventually(what, func() bool {
			declared, _ := a.want(http.StatusOK, request{path: path, user: member})["gpuPool"].(map[string]any)
			return cmp.Equal(constraints, declared["constraints"]) && cmp.Equal(access, declared["access"])
		})
	}
	only := map[string]any{"namespaces": []any{"other", "team"}, "priorities": []any{"high"}}
	put(http.StatusUnprocessableEntity, map[string]any{"access": map[string]any{"namespaces": []string{"No Namespace"}}})
	put(http.StatusUnprocessableEntity, map[string]any{"access": map[string]any{"priorities": []string{"urgent"}}})
	put(http.StatusOK, map[string]any{"access": map[string]any{"namespaces": []string{"team", "other", "team"}, "priorities": []string{"high"}}})
	shows("who may use it to be shown, and what it asks to stay", map[string]any{"minGpus": 4.0}, only)
	put(http.StatusOK, map[string]any{"constraints": map[string]any{"minGpus": 2}})
	shows("who may use it to stay when it asks something else", map[string]any{"minGpus": 2.0}, only)
	put(http.StatusOK, map[string]any{"access": map[string]any{}})
	shows("it to be for everybody again", map[string]any{"minGpus": 2.0}, nil)
}

// TestDeletingAQuotaLeavesTheRest: the namespace, and quotas that gpuctl did not make.
func TestDeletingAQuotaLeavesTheRest(t *testing.T) {
	a := start(t, server.Options{})
	foreign := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}
	if _, err := client.CoreV1().ResourceQuotas(other).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	created := a.want(http.StatusCreated, request{method: http.MethodPost, path: "/api/v1/quotas", user: admin, body: yamlOf(quotaYAML("team-q", other))})
	a.same("created", map[string]any{"message": "配额创建成功", "name": "team-q"}, only(created, "message", "name"))
	single := a.want(http.StatusOK, request{path: "/api/v1/quotas?namespace=other", user: admin})
	hard, _ := single["hard"].(map[string]any)
	a.same("the bound that is enforced", "4", hard["nvidia.com/gpu"])
	deleted := a.want(http.StatusOK, request{method: http.MethodDelete, path: "/api/v1/quotas/other", user: admin})
	a.same("deleted", map[string]any{"jobId": "other", "status": "deleted"}, only(deleted, "jobId", "status"))
	if _, err := client.CoreV1().ResourceQuotas(other).Get(t.Context(), "foreign", metav1.GetOptions{}); err != nil {
		t.Errorf("somebody else's quota is gone: %v", err)
	}
	refused := a.want(http.StatusForbidden, request{method: http.MethodDelete, path: "/api/v1/namespaces/other", user: admin})
	a.same("a namespace that gpuctl did not make", "NotManaged", refused["code"])
}
