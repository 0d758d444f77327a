package render

import (
	"path"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// noticeDir is the directory of the file preemption-notice, which tells a program that it will be preempted, and by when. The file is empty until
// then.
const (
	noticeDir    = "/run/g8s"
	noticeVolume = "preemption-notice"
)

// preemptionNoticeMount mounts the preemption notice for a job that requests a checkpoint grace: the kubelet updates the file from the annotation. A
// job that mounts something else there does not get the file.
func preemptionNoticeMount(job *workload.Job) (mount, bool) {
	if grace := job.Resources.CheckpointGrace; grace == nil || *grace == 0 {
		return mount{}, false
	}
	for dir := range job.Storage.Dirs() {
		if at := path.Clean(dir.MountPath); isBelow(at, noticeDir) || isBelow(noticeDir, at) {
			return mount{}, false
		}
	}
	for i := range job.Storage.Volumes {
		if job.Storage.Volumes[i].Name == noticeVolume {
			return mount{}, false
		}
	}
	return mount{path: noticeDir, readOnly: true, volume: corev1.Volume{
		Name: noticeVolume,
		VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
			Path: "preemption-notice", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + names.AnnotationPreemptionNotice + "']"},
		}}}},
	}}, true
}
