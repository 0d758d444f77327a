package workload

import (
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// envSourceFields are the possible sources of a variable's value.
func envSourceFields(v *corev1.EnvVar) fields {
	from := &corev1.EnvVarSource{}
	secret, config := &corev1.SecretKeySelector{}, &corev1.ConfigMapKeySelector{}
	property, amount := &corev1.ObjectFieldSelector{}, &corev1.ResourceFieldSelector{}
	use := func(fs fields, set func()) value {
		return envSource(v, from, fs, set)
	}
	return fields{
		{name: "secret-key-ref", doc: "A key of a Secret, for passwords and tokens.",
			value: use(keyFields(&secret.Name, &secret.Key, &secret.Optional), func() { from.SecretKeyRef = secret })},
		{name: "config-map-key-ref", doc: "A key of a ConfigMap.",
			value: use(keyFields(&config.Name, &config.Key, &config.Optional), func() { from.ConfigMapKeyRef = config })},
		{name: "field-ref", doc: "A property of the pod itself.",
			value: use(fields{{
				name: "field-path", required: true, example: "status.podIP",
				value: choiceValue(&property.FieldPath, podProperties...),
				doc:   "The property of the pod.",
			}}, func() { from.FieldRef = property })},
		{name: "resource-field-ref", doc: "An amount that the container asks for.",
			value: use(fields{{
				name: "resource", required: true, example: "limits.cpu",
				value: choiceValue(&amount.Resource, containerAmounts...),
				doc:   "What the container reserves (requests) or may use (limits).",
			}}, func() { from.ResourceFieldRef = amount })},
	}
}

// podProperties are the fields of a pod that Kubernetes can put into a variable.
var podProperties = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
	"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
}

// containerAmounts are the resources of a container that Kubernetes can put into a variable.
var containerAmounts = []string{"limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}

// envSource is a section that makes itself the only source of v.
func envSource(v *corev1.EnvVar, from *corev1.EnvVarSource, fs fields, set func()) value {
	plain := sectionValue(fs)
	return value{describe: plain.describe, fields: fs, decode: func(d *decoder, node *yaml.Node, path string) {
		if v.ValueFrom != nil {
			d.errorf(node, "%s is a second source of the value: keep one of them", path)
		}
		plain.decode(d, node, path)
		v.ValueFrom = from
		set()
	}}
}

// keyFields select a key of a Secret or ConfigMap.
func keyFields(name, key *string, optionalRef **bool) fields {
	return fields{
		{name: "name", required: true, value: scalarValue(name, "name", parseSubdomain), example: "hugging-face",
			doc: "The name of the object, in the job's namespace."},
		{name: "key", required: true, value: scalarValue(key, "text", dataKey), example: "token", doc: "The key in it."},
		{name: "optional", value: optionalValue(optionalRef, "true or false", parseBool), def: "false", example: "true",
			doc: "Start the job even if the object or the key does not exist."},
	}
}

// dataKey accepts a key of a Secret or ConfigMap.
func dataKey(s string) (string, error) {
	if len(validation.IsConfigMapKey(s)) > 0 {
		return "", phrase.Errorf("is not a valid key: use letters, digits, '-', '_' and '.'")
	}
	return s, nil
}
