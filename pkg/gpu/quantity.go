package gpu

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxQuantityLength bounds how long a quantity may be written. Longer ones have no use.
const maxQuantityLength = 24

const bytesPerMiB = 1 << 20

// annotatedMiB reads an annotation that holds an amount of memory, 0 when it is absent.
func annotatedMiB(annotations map[string]string, name string) (int64, error) {
	value, ok := annotations[name]
	if !ok {
		return 0, nil
	}
	memory, err := parseMiB(value)
	if err != nil {
		return 0, fmt.Errorf("reading annotation %s: %w", name, err)
	}
	return memory, nil
}

// parseMiB reads an amount of memory such as 80Gi, 2000Mi or 24G, and returns it in MiB, rounded up. It is at least 1Mi, which also catches numbers
// without a unit. Exponents are refused: Kubernetes' arithmetic on 1e999999999 practically never ends.
func parseMiB(value string) (int64, error) {
	if len(value) > maxQuantityLength || strings.ContainsAny(value, "eE") {
		return 0, fmt.Errorf("%.32q is no amount of memory: write one such as 2Gi", value)
	}
	quantity, err := resource.ParseQuantity(value)
	if err != nil {
		return 0, fmt.Errorf("%q is no amount of memory: write one such as 2Gi", value)
	}
	bytes := quantity.Value()
	if bytes < bytesPerMiB {
		return 0, fmt.Errorf("%q is less than 1Mi: write the unit too, such as 2Gi", value)
	}
	memory := (bytes-1)/bytesPerMiB + 1
	if memory > maxMemoryMiB {
		return 0, fmt.Errorf("%q is more than any GPU has: want at most 16Ti", value)
	}
	return memory, nil
}
