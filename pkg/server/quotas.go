package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

// QuotaItem is the quota of one namespace.
type QuotaItem struct {
	Name      string            `json:"name" doc:"The name of the quota document"`
	Namespace string            `json:"namespace"`
	Hard      map[string]string `json:"hard" doc:"The bounds, by resource"`
	Used      map[string]string `json:"used"`
	Status    string            `json:"status" enum:"Active"`
}

// QuotaList is a page of quotas. If a namespace was given, the keys of its quota are also at the top.
type QuotaList struct {
	Page[QuotaItem]
	// Clients of the first gpuctl read the quota of a namespace from the top level.
	Name      string            `json:"name,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
	Hard      map[string]string `json:"hard,omitempty"`
	Used      map[string]string `json:"used,omitempty"`
	Status    string            `json:"status,omitempty"`
}

type quotaListInput struct {
	Paging
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"`
}

type quotaListOutput struct{ Body QuotaList }

// QuotaRef names the namespace of a quota in a path.
type QuotaRef struct {
	Namespace string `path:"namespaceName" maxLength:"63" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
}

type quotaOutput struct {
	ETagged
	Body QuotaItem
}

func (s *Server) quotaRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/quotas", id: "listQuotas", tag: "quotas",
		summary: "List the quotas of namespaces, bounds and use",
		detail:  "With namespace the answer has the keys of that quota at its top, too.",
		fails:   []int{http.StatusUnprocessableEntity, http.StatusNotFound}}, s.listQuotas)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/quotas/{namespaceName}", id: "getQuota", tag: "quotas",
		summary: "The quota of a namespace", fails: []int{http.StatusNotFound}}, s.getQuota)
	s.quotaWriteRoutes()
}

func (s *Server) listQuotas(ctx context.Context, in *quotaListInput) (*quotaListOutput, error) {
	view, err := s.cache.latestView()
	if err != nil {
		return nil, err
	}
	var ours []*inventory.Quota
	for i := range view.Quotas {
		if in.Namespace == "" || view.Quotas[i].Namespace == in.Namespace {
			ours = append(ours, &view.Quotas[i])
		}
	}
	slices.SortFunc(ours, func(a, b *inventory.Quota) int { return cmp.Compare(a.Namespace, b.Namespace) })
	namespaces := make([]string, len(ours))
	for i, quota := range ours {
		namespaces[i] = quota.Namespace
	}
	scope, err := listScope(ctx, in.Namespace, namespaces, quotaResource)
	if err != nil {
		return nil, err
	}
	ours = slices.DeleteFunc(ours, func(quota *inventory.Quota) bool { return !scope.Has(quota.Namespace) })
	if in.Namespace != "" && len(ours) == 0 {
		return nil, notFoundErrorf("namespace %q has no quota of gpuctl", in.Namespace)
	}
	list, err := cutPage(in.Paging, ours, func(quota *inventory.Quota) string { return quota.Namespace }, quotaItem)
	out := &quotaListOutput{Body: QuotaList{Page: list}}
	if in.Namespace != "" && err == nil {
		only := quotaItem(ours[0])
		out.Body.Name, out.Body.Namespace, out.Body.Status = only.Name, only.Namespace, only.Status
		out.Body.Hard, out.Body.Used = only.Hard, only.Used
	}
	return out, err
}

func quotaItem(quota *inventory.Quota) QuotaItem {
	out := QuotaItem{
		Name: quota.Name, Namespace: quota.Namespace, Status: "Active",
		Hard: map[string]string{}, Used: map[string]string{},
	}
	for _, bound := range quota.Resources {
		out.Hard[bound.Resource], out.Used[bound.Resource] = bound.Hard.String(), bound.Used.String()
	}
	return out
}

func (s *Server) getQuota(ctx context.Context, in *QuotaRef) (*quotaOutput, error) {
	object, err := readQuota(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	quota := inventory.QuotaOf(object)
	return &quotaOutput{ETagged: ETagged{objectETag(object)}, Body: quotaItem(&quota)}, nil
}

// readQuota reads the quota of a namespace as the caller.
func readQuota(ctx context.Context, namespace string) (*corev1.ResourceQuota, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	list, err := caller.Kubernetes.CoreV1().ResourceQuotas(namespace).List(ctx, metav1.ListOptions{LabelSelector: names.LabelQuota})
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, notFoundErrorf("namespace %q has no quota of gpuctl", namespace)
	}
	return &list.Items[0], nil
}
