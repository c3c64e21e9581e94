-- All tenants, or those that a role of single tenants was granted.
-- Its owner is bound by row-level security too: the setting memforest.across lifts that for this one query.
CREATE OR REPLACE FUNCTION memforest.tenants()
RETURNS TABLE (tenant_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = memforest, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own text[] := CASE WHEN pg_has_role(session_user, 'memforest_limited', 'MEMBER')
                        AND NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = session_user)
                       THEN memforest.granted_tenants() END;
BEGIN
    PERFORM set_config('memforest.across', 'on', true);
    RETURN QUERY SELECT * FROM (
--
    SELECT t.tenant_id FROM tenant t
     WHERE NOT EXISTS (SELECT 1 FROM moved_tenant o WHERE o.tenant = t.tenant_id AND o.place IS NOT NULL) ORDER BY 1
--
    ) found WHERE own IS NULL OR found.tenant_id = ANY(own);
    PERFORM set_config('memforest.across', '', true);
END $$;

REVOKE ALL ON FUNCTION memforest.tenants() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memforest.tenants() TO memforest_service, memforest_limited;
