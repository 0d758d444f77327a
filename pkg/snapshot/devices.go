package snapshot

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
)

// DeviceClaims queries the claims of devices (ResourceClaims), which do not exist before Kubernetes 1.34.
func DeviceClaims(scope Scope) Query {
	return queryList(PartDeviceClaims, scope,
		func(c kubernetes.Interface) api[*resourcev1.ResourceClaimList] {
			return c.ResourceV1().ResourceClaims(scope.Namespace)
		},
		func(l *resourcev1.ResourceClaimList) []resourcev1.ResourceClaim { return l.Items },
		func(s *Snapshot) *[]resourcev1.ResourceClaim { return &s.DeviceClaims })
}

// DeviceClaimTemplates queries the templates of device claims.
func DeviceClaimTemplates(scope Scope) Query {
	return queryList(PartDeviceClaims, scope,
		func(c kubernetes.Interface) api[*resourcev1.ResourceClaimTemplateList] {
			return c.ResourceV1().ResourceClaimTemplates(scope.Namespace)
		},
		func(l *resourcev1.ResourceClaimTemplateList) []resourcev1.ResourceClaimTemplate { return l.Items },
		func(s *Snapshot) *[]resourcev1.ResourceClaimTemplate { return &s.DeviceClaimTemplates })
}

// DeviceClasses queries the classes of devices.
func DeviceClasses() Query {
	return queryList(PartDevices, Scope{Cached: true},
		func(c kubernetes.Interface) api[*resourcev1.DeviceClassList] { return c.ResourceV1().DeviceClasses() },
		func(l *resourcev1.DeviceClassList) []resourcev1.DeviceClass { return l.Items },
		func(s *Snapshot) *[]resourcev1.DeviceClass { return &s.DeviceClasses })
}

// ResourceSlices queries the devices that drivers offer.
func ResourceSlices() Query {
	return queryList(PartDevices, Scope{Cached: true},
		func(c kubernetes.Interface) api[*resourcev1.ResourceSliceList] {
			return c.ResourceV1().ResourceSlices()
		},
		func(l *resourcev1.ResourceSliceList) []resourcev1.ResourceSlice { return l.Items },
		func(s *Snapshot) *[]resourcev1.ResourceSlice { return &s.ResourceSlices })
}
