package workload

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// quantityText matches the supported subset of Kubernetes' quantities. Exponents are excluded: people do not write them, and a large one costs the
// parser unbounded time.
var quantityText = regexp.MustCompile(`^\d{1,15}(\.\d{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$`)

// Bounds of what a pod may request: less is a forgotten unit, more is a typing error.
var (
	minCPU    = resource.MustParse("1m")
	maxCPU    = resource.MustParse("100k")
	minMemory = resource.MustParse("1Mi")
	maxMemory = resource.MustParse("100Ti")
	maxClaim  = resource.MustParse("10Pi")
	maxTotal  = resource.MustParse("1000Pi")
)

// parseCPU accepts an amount of CPU: whole cores, or thousandths with the unit m.
func parseCPU(s string) (resource.Quantity, error) {
	q, err := parseQuantity(s, phrase.Textf("an amount of CPU such as 8 or 500m"))
	switch {
	case err != nil:
		return q, err
	case q.Cmp(minCPU) < 0:
		return q, phrase.Errorf("is too little: write at least 1m")
	case q.Cmp(maxCPU) > 0:
		return q, phrase.Errorf("is more CPU than any node has")
	}
	return q, nil
}

// parseMemory accepts an amount of memory of at least 1 MiB.
func parseMemory(s string) (resource.Quantity, error) {
	return byteAmount(s, maxMemory)
}

// claimSize accepts the size of a volume.
func claimSize(s string) (resource.Quantity, error) {
	return byteAmount(s, maxClaim)
}

// totalParser returns a parser for amounts in quotas: they may be 0, and as large as a whole cluster.
func totalParser(what phrase.Text) func(string) (resource.Quantity, error) {
	return func(s string) (resource.Quantity, error) {
		q, err := parseQuantity(s, what)
		if err == nil && q.Cmp(maxTotal) > 0 {
			return q, phrase.Errorf("is more than %s", maxTotal.String())
		}
		return q, err
	}
}

// memoryOrNone accepts an amount of memory, or 0.
func memoryOrNone(s string) (resource.Quantity, error) {
	if s == "0" {
		return resource.Quantity{}, nil
	}
	return parseMemory(s)
}

// wholeMebibytes accepts an amount of memory as a GPUPool does: in whole units of a mebibyte or more.
func wholeMebibytes(s string) (resource.Quantity, error) {
	share, err := parseMemory(s)
	if err == nil && !strings.ContainsAny(share.String(), "MGT") {
		return share, phrase.Errorf("is not whole: write an amount such as 512Mi or 8Gi")
	}
	return share, err
}

func byteAmount(s string, most resource.Quantity) (resource.Quantity, error) {
	q, err := parseQuantity(s, phrase.Textf("an amount of memory such as 512Mi or 32Gi"))
	switch {
	case err != nil:
		return q, err
	case q.Cmp(minMemory) < 0:
		return q, phrase.Errorf("is less than 1Mi%s", forgottenUnit(s))
	case q.Cmp(most) > 0:
		return q, phrase.Errorf("is more than %s", most.String())
	}
	return q, nil
}

// forgottenUnit suggests a unit for a number that is too small to be a number of bytes.
func forgottenUnit(s string) phrase.Text {
	number := strings.TrimRight(s, "mk")
	if number == "0" || strings.Contains(number, ".") || strings.HasSuffix(number, "Ki") {
		return nil
	}
	if strings.HasSuffix(s, "m") {
		return phrase.Textf(" (did you mean %sMi?)", number)
	}
	return phrase.Textf(" (did you mean %sGi?)", number)
}

func parseQuantity(s string, what phrase.Text) (resource.Quantity, error) {
	if strings.HasPrefix(s, "-") {
		return resource.Quantity{}, phrase.Errorf("is negative")
	}
	if !quantityText.MatchString(s) {
		return resource.Quantity{}, phrase.Errorf("is not %s%s", what, otherUnit(s))
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return resource.Quantity{}, phrase.Errorf("is not %s", what)
	}
	return q, nil
}

// otherUnit suggests the unit for amounts such as 32GB, 32 Gi or 32gi.
func otherUnit(s string) phrase.Text {
	parts := regexp.MustCompile(`^(\d+) ?([kmgtKMGT])(i|b|B|iB|ib)?$`).FindStringSubmatch(s)
	if parts == nil {
		return nil
	}
	return phrase.Textf(" (did you mean %s%si?)", parts[1], strings.ToUpper(parts[2]))
}
