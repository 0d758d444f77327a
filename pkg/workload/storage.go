package workload

import (
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Storage is what is mounted into the container.
type Storage struct {
	Workdirs []Workdir
	// Volumes are mounted after the workdirs.
	Volumes []Volume
}

// Dirs returns the workdirs and then the volumes, each with its path in the document, such as storage.workdirs[0].
func (s *Storage) Dirs() iter.Seq2[*Workdir, string] {
	return func(yield func(*Workdir, string) bool) {
		for i := range s.Workdirs {
			if !yield(&s.Workdirs[i], fmt.Sprintf("storage.workdirs[%d]", i)) {
				return
			}
		}
		for i := range s.Volumes {
			if !yield(&s.Volumes[i].Workdir, "storage."+s.Volumes[i].Name) {
				return
			}
		}
	}
}

// Volume is a mount with a name.
type Volume struct {
	// Name is the name of the pod's volume.
	Name string
	Workdir
}

// Workdir is one mount: a folder or file of the node, an existing claim, or a claim created with the job.
type Workdir struct {
	// Path is the node's path; empty if the mount is a claim.
	Path string
	// MountPath is the path in the container; never empty after parsing.
	MountPath string
	ReadOnly  bool
	// Type is the kubelet's check of the node's path; empty is none.
	Type corev1.HostPathType
	// Claim is the name of an existing PersistentVolumeClaim.
	Claim string
	// Size is the size of the claim to create with the job; nil creates none.
	Size *resource.Quantity
	// StorageClass is the class of the claim to create; empty is the cluster's default class.
	StorageClass string
}

func (w *Workdir) fillDerived() {
	if w.MountPath == "" {
		w.MountPath = w.Path
	}
	if w.Claim != "" || w.Size != nil {
		w.Path = ""
	}
}
