package workload

import (
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
)

func storageFields(s *Storage) fields {
	return fields{
		{name: "workdirs", example: `[{path: /datasets/alpaca}]`, value: sectionList(&s.Workdirs, workdirFields), def: "none",
			doc: "Folders and files that the container sees."},
		freeField("<name>", `{path: /datasets/alpaca}`, volumeValue(&s.Volumes), "A mount with a name of your own, which is that of its volume: the same fields as those of workdirs."),
	}
}

func workdirFields(w *Workdir) fields {
	return fields{
		{name: "path", value: scalarValue(&w.Path, "path", absolutePath), def: "none", example: "/datasets/alpaca",
			doc: "The folder or file of the node, mounted at the same path. With pvc or size: the path to mount the claim at. " +
				"Required, unless a claim has a mount-path."},
		{name: "mount-path", value: scalarValue(&w.MountPath, "path", mountPath), def: "path", example: "/data",
			doc: "Where the container sees it, where that is another path."},
		{name: "read-only", value: scalarValue(&w.ReadOnly, "true or false", parseBool), def: "false", example: "true",
			doc: "Protect it from being written."},
		{name: "type", excludes: []string{"pvc", "size"}, value: choiceValue(&w.Type, hostPathTypes...), def: "no check", example: "DirectoryOrCreate",
			doc: "What the node's path must be, or is made to be."},
		{name: "pvc", value: scalarValue(&w.Claim, "name", parseSubdomain), def: "none", example: "shared-datasets",
			doc: "An existing PersistentVolumeClaim to mount, instead of a path of the node."},
		{name: "size", excludes: []string{"pvc"}, value: optionalValue(&w.Size, "amount of storage", claimSize), def: "none", example: "200Gi",
			doc: "Make a new claim of this size with the job, and mount it instead of a path of the node."},
		{name: "storage-class", needs: []string{"size"}, value: scalarValue(&w.StorageClass, "name", parseSubdomain), def: "that of the cluster", example: "fast-ssd",
			doc: "The StorageClass of the new claim."},
	}
}

var hostPathTypes = []corev1.HostPathType{
	corev1.HostPathDirectory, corev1.HostPathFile, corev1.HostPathDirectoryOrCreate, corev1.HostPathFileOrCreate,
}

// volumeValue is a value that appends a workdir named by its key.
func volumeValue(to *[]Volume) value {
	return value{describe: "section", fields: workdirFields(&Workdir{}), decode: func(d *decoder, node *yaml.Node, path string) {
		var v Volume
		scalarValue(&v.Name, "name", dnsLabel(63)).decode(d, d.keys[path], path)
		d.decodeSection(node, path, workdirFields(&v.Workdir))
		*to = append(*to, v)
	}}
}
