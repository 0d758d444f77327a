package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

type createQuotaInput struct {
	Idempotent
	Body YAMLBody
}

type applyQuotaInput struct {
	IfMatch
	Body YAMLBody
}

// QuotaCreated describes a quota and its part in each namespace.
type QuotaCreated struct {
	Message string           `json:"message"`
	Name    string           `json:"name"`
	Created []QuotaNamespace `json:"created"`
}

// QuotaNamespace is the part of a quota in one namespace. Absent resources are unbounded.
type QuotaNamespace struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	CPU       string `json:"cpu,omitempty"`
	Memory    string `json:"memory,omitempty"`
	GPU       *int64 `json:"gpu,omitempty"`
	Status    string `json:"status" enum:"created,configured,unchanged,valid"`
}

type quotaCreatedOutput struct {
	Status int
	Body   QuotaCreated
}

type deleteQuotaInput struct {
	QuotaRef
	IfMatch
	Force bool `query:"force" doc:"Accepted for old clients"`
}

// QuotaDeleted describes a deleted quota.
type QuotaDeleted struct {
	JobID   string `json:"jobId" doc:"The namespace, under the key that the first gpuctl gave it"`
	Name    string `json:"name"`
	Status  string `json:"status" enum:"deleted"`
	Message string `json:"message"`
}

type quotaDeletedOutput struct{ Body QuotaDeleted }

const (
	messageQuotaCreated = "配额创建成功"
	messageQuotaUpdated = "配额更新成功"
	messageQuotaSame    = "配额无变化"
	messageQuotaValid   = "校验通过，未修改配额"
	messageQuotaDeleted = "配额删除成功"
)

func (s *Server) quotaWriteRoutes() {
	registerRoute(s, route{method: http.MethodPost, path: Root + "/quotas", id: "createQuota", tag: "quotas", status: http.StatusCreated,
		summary: "Create a quota, and the namespaces that are not there yet",
		detail:  "In all its namespaces or in none. A namespace has one quota: a second is refused with 409.",
		fails:   []int{http.StatusConflict},
		replies: map[int]*huma.Response{http.StatusOK: jsonReply[QuotaCreated](s, "The quota is valid, and was not created")}}, s.createQuota)
	registerRoute(s, route{method: http.MethodPut, path: Root + "/quotas", id: "applyQuota", tag: "quotas",
		summary: "Make a quota what its YAML says", detail: "When nothing differs nothing is written. If-Match needs the ETags of its parts in all namespaces.",
		fails:   []int{http.StatusConflict},
		replies: map[int]*huma.Response{http.StatusCreated: jsonReply[QuotaCreated](s, "The quota was created")}}, s.applyQuota)
	registerRoute(s, route{method: http.MethodDelete, path: Root + "/quotas/{namespaceName}", id: "deleteQuota", tag: "quotas",
		summary: "Delete the quota of a namespace; the namespace stays, and quotas that gpuctl did not make",
		fails:   []int{http.StatusNotFound, http.StatusConflict}}, s.deleteQuota)
}

func (s *Server) parseQuota(ctx context.Context, content string) (*workload.Quota, error) {
	doc, err := s.parseOne(ctx, content, "quota", func(doc document) bool { return doc.Quota != nil })
	return doc.Quota, err
}

func (s *Server) createQuota(ctx context.Context, in *createQuotaInput) (*quotaCreatedOutput, error) {
	quota, err := s.parseQuota(ctx, in.Body.YAMLContent)
	if err != nil {
		return nil, err
	}
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, err
	}
	addAuditNote(ctx, "quota/"+quota.Name)
	if err := writer.CreateQuota(ctx, quota, submit.QuotaOptions{DryRun: in.Body.DryRun}); err != nil {
		return nil, err
	}
	if in.Body.DryRun {
		return quotaAnswer(http.StatusOK, quota, messageQuotaValid, "valid"), nil
	}
	s.cache.waitUntilShown(ctx, func(v *view) bool { return v.showsQuota(quota) })
	return quotaAnswer(http.StatusCreated, quota, messageQuotaCreated, "created"), nil
}

func (s *Server) applyQuota(ctx context.Context, in *applyQuotaInput) (*quotaCreatedOutput, error) {
	quota, err := s.parseQuota(ctx, in.Body.YAMLContent)
	if err != nil {
		return nil, err
	}
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, err
	}
	result, err := in.guardWriter(writer, fmt.Sprintf("quota %q", quota.Name)).ApplyQuota(ctx, quota, submit.QuotaOptions{DryRun: in.Body.DryRun})
	if err != nil {
		return nil, err
	}
	addAuditNote(ctx, "quota/"+quota.Name+" "+string(result.Action))
	for i := range quota.Namespaces {
		if result.Action != submit.ActionUnchanged { // the right has not been checked yet
			break
		}
		if err := checkChangeRight(ctx, "patch", quota.Namespaces[i].Namespace, quotaResource); err != nil {
			return nil, err
		}
	}
	switch {
	case in.Body.DryRun:
		return quotaAnswer(http.StatusOK, quota, messageQuotaValid, "valid"), nil
	case result.Action == submit.ActionUnchanged:
		return quotaAnswer(http.StatusOK, quota, messageQuotaSame, string(result.Action)), nil
	}
	s.cache.waitUntilShown(ctx, func(v *view) bool { return v.showsQuota(quota) })
	if result.Action == submit.ActionCreated {
		return quotaAnswer(http.StatusCreated, quota, messageQuotaCreated, string(result.Action)), nil
	}
	return quotaAnswer(http.StatusOK, quota, messageQuotaUpdated, string(result.Action)), nil
}

func quotaAnswer(status int, quota *workload.Quota, message, became string) *quotaCreatedOutput {
	out := &quotaCreatedOutput{Status: status, Body: QuotaCreated{Message: message, Name: quota.Name, Created: []QuotaNamespace{}}}
	for i := range quota.Namespaces {
		n := &quota.Namespaces[i]
		item := QuotaNamespace{Name: quota.Name, Namespace: n.Namespace, GPU: n.GPU, Status: became}
		if n.CPU != nil {
			item.CPU = n.CPU.String()
		}
		if n.Memory != nil {
			item.Memory = n.Memory.String()
		}
		out.Body.Created = append(out.Body.Created, item)
	}
	return out
}

// showsQuota reports whether the view has a quota in all its namespaces.
func (v *view) showsQuota(quota *workload.Quota) bool {
	shown := map[string]bool{}
	for i := range v.Quotas {
		if v.Quotas[i].Name == quota.Name {
			shown[v.Quotas[i].Namespace] = true
		}
	}
	for i := range quota.Namespaces {
		if !shown[quota.Namespaces[i].Namespace] {
			return false
		}
	}
	return true
}

// deleteQuota deletes exactly the quota object that gpuctl created.
func (s *Server) deleteQuota(ctx context.Context, in *deleteQuotaInput) (*quotaDeletedOutput, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	quota, err := readQuota(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	if err := in.checkVersion(fmt.Sprintf("the quota of namespace %q", in.Namespace), objectETag(quota)); err != nil {
		return nil, err
	}
	addAuditNote(ctx, strings.Join([]string{"quota", in.Namespace, quota.Labels[names.LabelQuota]}, "/"))
	only := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &quota.UID}}
	if in.Match != "" {
		only.Preconditions.ResourceVersion = &quota.ResourceVersion
	}
	if err := caller.Kubernetes.CoreV1().ResourceQuotas(in.Namespace).Delete(ctx, quota.Name, only); err != nil {
		return nil, err
	}
	s.cache.waitUntilShown(ctx, func(v *view) bool { return !v.hasQuota(in.Namespace) })
	return &quotaDeletedOutput{Body: QuotaDeleted{
		JobID: in.Namespace, Name: cmp.Or(quota.Labels[names.LabelQuota], quota.Name), Status: "deleted", Message: messageQuotaDeleted,
	}}, nil
}

func (v *view) hasQuota(namespace string) bool {
	for i := range v.Quotas {
		if v.Quotas[i].Namespace == namespace {
			return true
		}
	}
	return false
}
