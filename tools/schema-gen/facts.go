// facts - prints what Go's reflection knows of the Kubernetes API types Berth serves: JSON names, protobuf
// numbers, types, pointers, merge tags. One JSON object per type; schema-gen.py makes the tables of it.
//
// Run by hand when the tables move to a newer Kubernetes (README.md); nothing else needs Go.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	authn "k8s.io/api/authentication/v1"
	authz "k8s.io/api/authorization/v1"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	policy "k8s.io/api/policy/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	metrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

type Field struct {
	Name    string `json:"name"`
	Number  int    `json:"number"`
	Base    string `json:"base"`
	Shape   string `json:"shape"`
	Pointer bool   `json:"pointer"`
	Type    string `json:"type,omitempty"`
	Go      string `json:"go"`
	Patch   string `json:"patch,omitempty"`
	Key     string `json:"key,omitempty"`
}

type Type struct {
	Name           string   `json:"name"`
	Package        string   `json:"package"`
	Fields         []*Field `json:"fields"`
	Embedded       string   `json:"embedded,omitempty"`
	EmbeddedNumber int      `json:"embeddedNumber,omitempty"`
}

var (
	types   = map[string]*Type{}
	special = map[reflect.Type]string{
		reflect.TypeOf(resource.Quantity{}):    "QUANTITY",
		reflect.TypeOf(meta.Time{}):            "TIME",
		reflect.TypeOf(meta.MicroTime{}):       "MICRO_TIME",
		reflect.TypeOf(meta.Duration{}):        "STRING",
		reflect.TypeOf(intstr.IntOrString{}):   "INT_OR_STRING",
		reflect.TypeOf(meta.FieldsV1{}):        "ANY",
		reflect.TypeOf(runtime.RawExtension{}): "ANY",
	}
)

// Its name in the tables; two packages may have a type of one name.
func nameOf(t reflect.Type) string {
	if t == reflect.TypeOf(discovery.EndpointPort{}) {
		return "EndpointSlicePort"
	}
	return t.Name()
}

func number(f reflect.StructField) int {
	parts := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(parts[1])
	return n
}

func base(t reflect.Type) (string, string) {
	if s, ok := special[t]; ok {
		return s, ""
	}
	switch t.Kind() {
	case reflect.String:
		return "STRING", ""
	case reflect.Int32:
		return "INT32", ""
	case reflect.Int64:
		return "INT64", ""
	case reflect.Bool:
		return "BOOL", ""
	case reflect.Float64:
		return "DOUBLE", ""
	case reflect.Struct:
		add(t)
		return "MESSAGE", nameOf(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "BYTES", ""
		}
	}
	return "ANY", ""
}

func field(f reflect.StructField, name string) *Field {
	t, r := f.Type, &Field{Name: name, Number: number(f), Shape: "ONE"}
	if t.Kind() == reflect.Ptr {
		r.Pointer, t = true, t.Elem()
	}
	r.Go = t.String()
	r.Patch, r.Key = f.Tag.Get("patchStrategy"), f.Tag.Get("patchMergeKey")
	if t.Kind() == reflect.Map {
		r.Shape, t = "MAP", t.Elem()
	} else if t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 {
		r.Shape, t = "LIST", t.Elem()
	}
	if t.Kind() == reflect.Ptr {
		t = t.Elem()
	}
	r.Base, r.Type = base(t)
	return r
}

func add(t reflect.Type) *Type {
	if got, ok := types[nameOf(t)]; ok {
		if got.Package != t.PkgPath() {
			panic("two types named " + t.Name())
		}
		return got
	}
	r := &Type{Name: nameOf(t), Package: t.PkgPath()}
	types[r.Name] = r
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		name := strings.Split(f.Tag.Get("json"), ",")[0]
		if name == "-" || !f.IsExported() {
			continue
		}
		if name != "" {
			r.Fields = append(r.Fields, field(f, name))
			continue
		}
		if f.Type == reflect.TypeOf(meta.TypeMeta{}) {
			r.Fields = append(r.Fields, &Field{Name: "apiVersion", Base: "STRING", Shape: "ONE", Go: "string"},
				&Field{Name: "kind", Base: "STRING", Shape: "ONE", Go: "string"})
			continue
		}
		inner := add(f.Type)
		r.Embedded, r.EmbeddedNumber = inner.Name, number(f)
		for _, g := range inner.Fields {
			copied := *g
			copied.Number = 0
			r.Fields = append(r.Fields, &copied)
		}
	}
	sort.Slice(r.Fields, func(i, j int) bool { return r.Fields[i].Name < r.Fields[j].Name })
	return r
}

func main() {
	for _, v := range []any{
		core.Namespace{}, core.Node{}, core.Pod{}, core.ConfigMap{}, core.Secret{}, core.PersistentVolumeClaim{},
		core.PersistentVolume{}, core.ResourceQuota{}, core.LimitRange{}, core.Event{}, core.Service{},
		core.ServiceAccount{}, core.Binding{}, core.Endpoints{}, discovery.EndpointSlice{}, batch.Job{}, scheduling.PriorityClass{}, coordination.Lease{},
		storage.StorageClass{}, policy.Eviction{}, meta.DeleteOptions{}, meta.Status{}, meta.Condition{},
		authz.SelfSubjectAccessReview{}, authz.SelfSubjectRulesReview{}, authn.SelfSubjectReview{},
		metrics.PodMetrics{}, metrics.NodeMetrics{},
	} {
		add(reflect.TypeOf(v))
	}
	out := []*Type{}
	for _, t := range types {
		out = append(out, t)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", " ")
	enc.Encode(out)
}
