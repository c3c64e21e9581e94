-- The tenants that the session's role was granted. Only members of memforest_limited are bound by it.
CREATE OR REPLACE FUNCTION memforest.granted_tenants()
RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = memforest, pg_temp AS $$
    SELECT coalesce(array_agg(tenant), '{}') FROM tenant_role WHERE role = session_user::text
$$;

REVOKE ALL ON FUNCTION memforest.granted_tenants() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memforest.granted_tenants() TO memforest_limited;
