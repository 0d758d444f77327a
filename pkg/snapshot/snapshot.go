// Package snapshot is the only reader of the cluster. A [Snapshot] is the result of queries, as Kubernetes has it at one moment; everything that
// shows or judges the cluster is a pure function of such a value. [Read] lists each part once, and [Watch] keeps all of them up to date: the
// values are the same.
package snapshot

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Snapshot is a part of the cluster at one moment, with each list in no particular order. It is read-only. A list that was not queried is nil,
// and nothing follows from that.
type Snapshot struct {
	Nodes []corev1.Node
	Pods  []corev1.Pod
	Jobs  []batchv1.Job
	// ForeignPods and ForeignJobs are those without gpuctl's label of a job, where they are queried by themselves.
	ForeignPods     []corev1.Pod
	ForeignJobs     []batchv1.Job
	Deployments     []appsv1.Deployment
	ReplicaSets     []appsv1.ReplicaSet
	Services        []corev1.Service
	Events          []corev1.Event
	Namespaces      []corev1.Namespace
	Quotas          []corev1.ResourceQuota
	LimitRanges     []corev1.LimitRange
	Claims          []corev1.PersistentVolumeClaim
	Volumes         []corev1.PersistentVolume
	PriorityClasses []schedulingv1.PriorityClass
	Budgets         []policyv1.PodDisruptionBudget
	GPUPools        []names.GPUPool
	SpotPools       []names.SpotPool
	GPUReservations []names.GPUReservation
	GPUQuotas       []names.GPUQuota
	// DeviceClaims, DeviceClaimTemplates, DeviceClasses and ResourceSlices are Kubernetes' own way to devices (DRA).
	DeviceClaims         []resourcev1.ResourceClaim
	DeviceClaimTemplates []resourcev1.ResourceClaimTemplate
	DeviceClasses        []resourcev1.DeviceClass
	ResourceSlices       []resourcev1.ResourceSlice
	// KueueWorkloads are what Kueue admits, one for each object that it manages.
	KueueWorkloads []unstructured.Unstructured
	// PodGroups are names: a Go type would bind gpuctl to one scheduler.
	PodGroups []string
	// Objects are the untyped query results.
	Objects map[ObjectRef]*unstructured.Unstructured
	// Lease is that of our scheduler, nil if there is none.
	Lease *coordinationv1.Lease
	// Now is the time of the API server's clock, to the second. ClockTold says that the server reported it, and that Now is not the clock of
	// this machine. Timestamps of Kubernetes are compared with it, because clocks may be minutes apart. Where it was not queried, readers of jobs put the
	// clock of this machine.
	Now       time.Time
	ClockTold bool
	// Unread are the parts that the user may not read, or that this cluster does not have. Missing data is not guessed.
	Unread []Part
}

// Part is a part of a snapshot, in words for users.
type Part string

// Says is the part in every language.
func (p Part) Says() phrase.Text { return phrase.FromTemplate(string(p), nil) }

// The parts.
const (
	PartNodes           Part = "nodes"
	PartPods            Part = "pods"
	PartAllPods         Part = "pods of all namespaces"
	PartJobs            Part = "jobs"
	PartDeployments     Part = "deployments"
	PartReplicaSets     Part = "replica sets"
	PartServices        Part = "services"
	PartEvents          Part = "events"
	PartNamespaces      Part = "namespaces"
	PartNamespace       Part = "the namespace"
	PartQuotas          Part = "quotas"
	PartLimitRanges     Part = "limit ranges"
	PartClaims          Part = "claims of volumes"
	PartVolumes         Part = "volumes"
	PartPriorityClasses Part = "priority classes"
	PartBudgets         Part = "pod disruption budgets"
	PartPodGroups       Part = "PodGroups"
	PartKueueWorkloads  Part = "Workloads of Kueue"
	PartObjects         Part = "objects of gangs"
	PartGPUPools        Part = "GPUPools"
	PartSpotPools       Part = "SpotPools"
	PartGPUReservations Part = "GPUReservations"
	PartGPUQuotas       Part = "GPUQuotas"
	PartDeviceClaims    Part = "claims of devices"
	PartDevices         Part = "devices that can be claimed"
	PartLease           Part = "the scheduler's lease"
	// PartPolicies and PartRecords are read by other packages, and marked as unread like the others.
	PartPolicies Part = "admission policies"
	PartRecords  Part = "the scheduler's records"
)

// HasPart reports whether a queried part is known: objects that are missing then do not exist.
func (s *Snapshot) HasPart(part Part) bool { return s != nil && !slices.Contains(s.Unread, part) }

// MarkUnread records that the user may not read a part.
func (s *Snapshot) MarkUnread(part Part) {
	if !slices.Contains(s.Unread, part) {
		s.Unread = append(slices.Clone(s.Unread), part)
		slices.Sort(s.Unread)
	}
}

// Read runs queries concurrently. It returns the first error; missing parts are in [Snapshot.Unread].
func Read(ctx context.Context, client kubernetes.Interface, wants ...Query) (*Snapshot, error) {
	out := &Snapshot{}
	var mu sync.Mutex // held while hiding a part
	group, ctx := errgroup.WithContext(ctx)
	for _, want := range wants {
		group.Go(func() error {
			for {
				err := want.read(ctx, client, out)
				refused := apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
				switch {
				case err == nil:
					return nil
				case !refused || !want.optional && want.fallback == nil:
					return phrase.Errorf("reading %s: %w", want.part.Says(), err)
				}
				mu.Lock()
				out.MarkUnread(want.part)
				mu.Unlock()
				if want.fallback == nil {
					return nil
				}
				want = *want.fallback
			}
		})
	}
	return out, group.Wait()
}
