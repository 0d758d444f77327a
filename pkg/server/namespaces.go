package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/server/access"
)

// NamespaceItem is a namespace of a list.
type NamespaceItem struct {
	Name      string    `json:"name"`
	Status    string    `json:"status" enum:"Active,Terminating"`
	Age       string    `json:"age"`
	CreatedAt time.Time `json:"createdAt"`
	Managed   bool      `json:"managed" doc:"Whether gpuctl made it, and may delete it"`
}

// NamespaceDetail is a namespace with its quota.
type NamespaceDetail struct {
	NamespaceItem
	Labels map[string]string `json:"labels"`
	Quota  *QuotaItem        `json:"quota,omitempty" doc:"The quota of gpuctl, if there is one and you may list quotas"`
}

type namespaceListInput struct{ Paging }

// NamespaceList is a page of namespaces.
type NamespaceList Page[NamespaceItem]

type namespaceListOutput struct{ Body NamespaceList }

// NamespaceRef names a namespace in a path.
type NamespaceRef struct {
	Name string `path:"namespaceName" maxLength:"63" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
}

type namespaceOutput struct {
	ETagged
	Body NamespaceDetail
}

type deleteNamespaceInput struct {
	NamespaceRef
	IfMatch
	Force bool `query:"force" doc:"Accepted for old clients"`
}

// NamespaceDeleted describes a namespace that is being deleted.
type NamespaceDeleted struct {
	Name    string `json:"name"`
	Status  string `json:"status" enum:"deleted"`
	Message string `json:"message"`
}

type namespaceDeletedOutput struct{ Body NamespaceDeleted }

func (s *Server) namespaceRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/namespaces", id: "listNamespaces", tag: "namespaces",
		summary: "List namespaces", detail: "All, to who may list namespaces; else those in which you may list jobs.",
		fails: []int{http.StatusUnprocessableEntity}}, s.listNamespaces)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/namespaces/{namespaceName}", id: "getNamespace", tag: "namespaces",
		summary: "A namespace and its quota", fails: []int{http.StatusNotFound}}, s.getNamespace)
	registerRoute(s, route{method: http.MethodDelete, path: Root + "/namespaces/{namespaceName}", id: "deleteNamespace", tag: "namespaces",
		summary: "Delete a namespace that gpuctl made, with all that is in it",
		detail:  "One that gpuctl did not make is refused with 403 NotManaged.",
		fails:   []int{http.StatusNotFound, http.StatusConflict}}, s.deleteNamespace)
}

// namespaceNames returns all namespaces, sorted.
func (v *view) namespaceNames() []string {
	out := make([]string, len(v.Namespaces))
	for i := range v.Namespaces {
		out[i] = v.Namespaces[i].Name
	}
	return out
}

func (s *Server) listNamespaces(ctx context.Context, in *namespaceListInput) (*namespaceListOutput, error) {
	view, err := s.cache.latestView()
	if err != nil {
		return nil, err
	}
	scope, err := s.namespaceScope(ctx, view)
	if err != nil {
		return nil, err
	}
	var visible []*inventory.Namespace
	for i := range view.Namespaces {
		if scope.Has(view.Namespaces[i].Name) {
			visible = append(visible, &view.Namespaces[i])
		}
	}
	now := s.options.Now()
	list, err := cutPage(in.Paging, visible, func(n *inventory.Namespace) string { return n.Name },
		func(n *inventory.Namespace) NamespaceItem { return namespaceItem(n, now) })
	return &namespaceListOutput{Body: NamespaceList(list)}, err
}

// namespaceScope returns the namespaces that the caller may know about.
func (s *Server) namespaceScope(ctx context.Context, v *view) (access.Scope, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return access.Scope{}, err
	}
	scope, err := caller.FindScope(ctx, nil, namespaceResource)
	if err != nil || !scope.Empty() {
		return scope, err
	}
	return listScope(ctx, "", v.namespaceNames(), jobResources...)
}

func namespaceItem(n *inventory.Namespace, now time.Time) NamespaceItem {
	return NamespaceItem{
		Name: n.Name, Status: cmp.Or(n.Status, string(corev1.NamespaceActive)),
		Age: duration.HumanDuration(now.Sub(n.Created)), CreatedAt: n.Created, Managed: n.Managed,
	}
}

// getNamespace reads as the caller, so a caller without the right gets the API server's error.
func (s *Server) getNamespace(ctx context.Context, in *NamespaceRef) (*namespaceOutput, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	found, err := caller.Kubernetes.CoreV1().Namespaces().Get(ctx, in.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	row := inventory.NamespaceOf(found)
	out := &namespaceOutput{ETagged: ETagged{objectETag(found)}, Body: NamespaceDetail{NamespaceItem: namespaceItem(&row, s.options.Now()), Labels: map[string]string{}}}
	maps.Copy(out.Body.Labels, row.Labels)
	if caller.CheckListRight(ctx, in.Name, quotaResource) == nil {
		if object, err := readQuota(ctx, in.Name); err == nil {
			quota := inventory.QuotaOf(object)
			item := quotaItem(&quota)
			out.Body.Quota = &item
		}
	}
	return out, nil
}

func (s *Server) deleteNamespace(ctx context.Context, in *deleteNamespaceInput) (*namespaceDeletedOutput, error) {
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, err
	}
	addAuditNote(ctx, "namespace/"+in.Name)
	if _, err := in.guardWriter(writer, fmt.Sprintf("namespace %q", in.Name)).DeleteNamespace(ctx, in.Name); err != nil {
		return nil, err
	}
	return &namespaceDeletedOutput{Body: NamespaceDeleted{
		Name: in.Name, Status: "deleted", Message: fmt.Sprintf("命名空间 %s 已成功删除", in.Name),
	}}, nil
}
