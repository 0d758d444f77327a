package inventory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// GPUQuota is how many whole GPUs of a pool namespaces are guaranteed, may have, and have.
type GPUQuota struct {
	Name       string   `json:"name"`
	Pool       string   `json:"pool"`
	GPUType    string   `json:"gpuType,omitempty"`
	Namespaces []string `json:"namespaces"`
	Min        int64    `json:"min"`
	// Max is nil for as many as there are.
	Max *int64 `json:"max,omitempty"`
	// Used is what their pods hold, and Borrowed the part of it that goes back to who is guaranteed it. They are nil for who may not
	// see the pods of all namespaces.
	Used     *int64    `json:"used,omitempty"`
	Borrowed *int64    `json:"borrowed,omitempty"`
	Created  time.Time `json:"created"`
}

// NoGPUQuotasError says that a cluster knows no GPUQuotas.
type NoGPUQuotasError struct{}

func (*NoGPUQuotasError) Error() string {
	return "this cluster knows no GPUQuotas: have the administrators apply manifests/crds"
}

// GPUQuotas reads all GPUQuotas and what is held of them, sorted by pool and name. It returns a [NoGPUQuotasError] where there can be none.
func (r *Reader) GPUQuotas(ctx context.Context) ([]GPUQuota, error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.GPUQuotas(), snapshot.Nodes(snapshot.Scope{Cached: true}).IfAllowed(),
		snapshot.Pods(snapshot.Scope{Fields: snapshot.Holding, Cached: true}).IfAllowed())
	if apierrors.IsNotFound(err) {
		return nil, &NoGPUQuotasError{}
	}
	if err != nil {
		return nil, fmt.Errorf("reading GPUQuotas: %w", err)
	}
	return BuildGPUQuotas(read), nil
}

// BuildGPUQuotas is what GPUQuotas say, and what is held of them.
func BuildGPUQuotas(s *snapshot.Snapshot) []GPUQuota {
	quotas := make([]gpuquota.Quota, len(s.GPUQuotas))
	out := make([]GPUQuota, len(s.GPUQuotas))
	for i := range s.GPUQuotas {
		q := &s.GPUQuotas[i]
		quotas[i] = gpuquota.Of(q)
		out[i] = GPUQuota{Name: q.Name, Pool: q.Spec.Pool, GPUType: q.Spec.GPUType, Namespaces: q.Spec.Namespaces, Min: q.Spec.Min, Max: q.Spec.Max, Created: q.CreationTimestamp.Time}
	}
	if s.Has(snapshot.PartAllPods) && s.Has(snapshot.PartNodes) {
		for i, use := range accountOf(s, quotas).Uses() {
			out[i].Used, out[i].Borrowed = &use.Used, &use.Borrowed
		}
	}
	slices.SortFunc(out, func(a, b GPUQuota) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Name, b.Name)) })
	return out
}

// accountOf is who holds what, as the scheduler counts it.
func accountOf(s *snapshot.Snapshot, quotas []gpuquota.Quota) *gpuquota.Account {
	account, nodes := gpuquota.NewAccount(quotas), make(map[string]*corev1.Node, len(s.Nodes))
	for i := range s.Nodes {
		nodes[s.Nodes[i].Name] = &s.Nodes[i]
	}
	for i := range s.Pods {
		pod := &s.Pods[i]
		h := gpuquota.HoldingOf(pod, nodes[pod.Spec.NodeName])
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && pod.Labels[names.LabelPodGroup] != "" {
			h.Unit = pod.Namespace + "/" + pod.Labels[names.LabelPodGroup] + "/" + string(owner.UID)
		}
		account.Put(h)
	}
	return account
}
