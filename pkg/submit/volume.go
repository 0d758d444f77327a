package submit

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// KindVolume is the kind of a volume in a [Ref]: a PersistentVolumeClaim.
const KindVolume = "volume"

// Volume is a PersistentVolumeClaim that jobs mount. JSON keys are a contract.
type Volume struct {
	Name string `json:"name"`
	// Size is what it has, or what it asks for while it has no storage.
	Size string `json:"size"`
	// Class is its storage class.
	Class string `json:"class,omitempty"`
	// Shared volumes can be mounted on several nodes at once.
	Shared bool `json:"shared,omitempty"`
	// Status is Pending, Bound or Lost, or Terminating for one that goes when no pod uses it any more.
	Status string `json:"status"`
	// Job is the job that made it and that it goes with, "" for one that stays.
	Job string `json:"job,omitempty"`
	// UsedBy are the pods that mount it.
	UsedBy  []string  `json:"usedBy,omitempty"`
	Created time.Time `json:"created"`
}

// VolumeRequest is a volume to create.
type VolumeRequest struct {
	Namespace, Name string
	Size            resource.Quantity
	// Class is the storage class, "" for the cluster's default.
	Class  string
	Shared bool
}

// JobsVolumeError says that a volume belongs to a job, with which it goes.
type JobsVolumeError struct{ Namespace, Name, Job string }

func (e *JobsVolumeError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *JobsVolumeError) Message() phrase.Text {
	return phrase.Textf("volume %q belongs to job %s, and goes with it: nothing was done\nDelete the job: gpuctl delete %s -n %s", e.Name, e.Job, e.Job, e.Namespace)
}

// CreateVolume creates a volume.
func (c *Client) CreateVolume(ctx context.Context, asked VolumeRequest, dryRun bool) (Result, error) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: asked.Namespace, Name: asked.Name, Labels: map[string]string{names.LabelManagedBy: names.ManagedByGpuctl}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: asked.Size}},
		},
	}
	if asked.Shared {
		claim.Spec.AccessModes[0] = corev1.ReadWriteMany
	}
	if asked.Class != "" {
		claim.Spec.StorageClassName = &asked.Class
	}
	out := Result{Ref: Ref{Namespace: asked.Namespace, Name: asked.Name, Kind: KindVolume}, Action: ActionCreated}
	return out, c.createNamed(ctx, claim, dryRun)
}

// Volumes lists the volumes of a namespace, sorted by name.
func (c *Client) Volumes(ctx context.Context, namespace string) ([]Volume, error) {
	claims, pods := &corev1.PersistentVolumeClaimList{}, &corev1.PodList{}
	if err := c.api.List(ctx, claims, client.InNamespace(namespace)); err != nil {
		return nil, phrase.Errorf("listing volumes: %w", err)
	}
	if err := c.api.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return nil, phrase.Errorf("listing pods: %w", err)
	}
	users := volumeUsers(pods.Items)
	out := make([]Volume, 0, len(claims.Items))
	for i := range claims.Items {
		out = append(out, newVolume(&claims.Items[i], users))
	}
	slices.SortFunc(out, func(a, b Volume) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// volumeUsers are the pods that mount each claim and have not ended.
func volumeUsers(pods []corev1.Pod) map[string][]string {
	out := map[string][]string{}
	for i := range pods {
		for _, volume := range pods[i].Spec.Volumes {
			if volume.PersistentVolumeClaim != nil && !gpu.HasEnded(&pods[i]) {
				out[volume.PersistentVolumeClaim.ClaimName] = append(out[volume.PersistentVolumeClaim.ClaimName], pods[i].Name)
			}
		}
	}
	return out
}

func newVolume(claim *corev1.PersistentVolumeClaim, users map[string][]string) Volume {
	size, bound := claim.Status.Capacity[corev1.ResourceStorage]
	if !bound {
		size = claim.Spec.Resources.Requests[corev1.ResourceStorage]
	}
	out := Volume{
		Name: claim.Name, Size: size.String(), Status: string(claim.Status.Phase), Job: claim.Labels[names.LabelJob], UsedBy: users[claim.Name],
		Created: claim.CreationTimestamp.Time, Shared: slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany),
	}
	if claim.Spec.StorageClassName != nil {
		out.Class = *claim.Spec.StorageClassName
	}
	if claim.DeletionTimestamp != nil {
		out.Status = "Terminating"
	}
	return out
}

// DeleteVolume deletes a volume that gpuctl made and that belongs to no job. Kubernetes keeps it until no pod uses it any more.
func (c *Client) DeleteVolume(ctx context.Context, namespace, name string, dryRun bool) (Result, error) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.api.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
		return Result{}, phrase.Errorf("deleting %s %s: %w", KindVolume, name, err)
	}
	if job := claim.Labels[names.LabelJob]; job != "" {
		return Result{}, &JobsVolumeError{Namespace: namespace, Name: name, Job: job}
	}
	return c.deleteNamed(ctx, claim, KindVolume, dryRun)
}
