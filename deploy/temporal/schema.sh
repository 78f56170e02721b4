#!/bin/sh
# Brings both of Temporal's databases to the schema of this image. Each step
# may be repeated: what exists is left alone. Host, user and password come by
# the SQL_ variables of temporal-sql-tool.
set -eu

migrate() {
	database=$1
	kind=$2
	temporal-sql-tool --db "$database" create
	temporal-sql-tool --db "$database" setup-schema -v 0.0
	temporal-sql-tool --db "$database" update-schema -d "/etc/temporal/schema/postgresql/v12/$kind/versioned"
}

migrate temporal temporal
migrate temporal_visibility visibility
