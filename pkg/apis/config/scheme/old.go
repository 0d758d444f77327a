package scheme

import (
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

// OldVersion is the version of kube-scheduler's configuration that Kubernetes 1.29 stopped reading. It has the fields of v1, so it
// is read as v1, with a warning.
var OldVersion = schema.GroupVersion{Group: kubeschedulerv1.GroupName, Version: "v1beta3"}

// addOld registers every type of v1, including the arguments of plugins, under the older version as well.
func addOld(to *runtime.Scheme) {
	for kind, of := range to.KnownTypes(kubeschedulerv1.SchemeGroupVersion) {
		if object, ok := reflect.New(of).Interface().(runtime.Object); ok && of.PkgPath() != metaPackage {
			to.AddKnownTypeWithName(OldVersion.WithKind(kind), object)
		}
	}
}

// metaPackage has the types that every group has, such as ListOptions.
const metaPackage = "k8s.io/apimachinery/pkg/apis/meta/v1"

// CheckVersion describes what to change in a configuration of an older version that is still supported; empty for the current version. The error is
// for an unsupported version, and states what to write. The decoder reports input that is no YAML, or no configuration at all.
func CheckVersion(data []byte) (warning string, err error) {
	var header struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
	}
	if yaml.Unmarshal(data, &header) != nil {
		return "", nil
	}
	is, parseErr := schema.ParseGroupVersion(header.APIVersion)
	today := kubeschedulerv1.SchemeGroupVersion
	switch {
	case is == OldVersion:
		return fmt.Sprintf("apiVersion %s is read as %s, which has the same fields: write apiVersion: %s, since Kubernetes reads the old one no more", is, today, today), nil
	case header.APIVersion == "":
		return "", fmt.Errorf("apiVersion is missing: write apiVersion: %s", today)
	case parseErr != nil || scheme.Scheme.Recognizes(is.WithKind(header.Kind)):
		return "", nil
	case is.Group == today.Group && is != today:
		return "", fmt.Errorf("apiVersion %s is not read: write apiVersion: %s, and look through the fields, some of which have changed since", is, today)
	}
	return "", nil
}
